"""Fig. 3: how fast descents converge."""
