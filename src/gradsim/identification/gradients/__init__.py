"""Diagnostics of gradients: which unknowns a loss depends on, and why not."""
