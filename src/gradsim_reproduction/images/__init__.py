"""Fig. 7 and renderers side by side."""
