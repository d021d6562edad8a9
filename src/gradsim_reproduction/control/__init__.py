"""Fig. 6 and controllers with feedback."""
