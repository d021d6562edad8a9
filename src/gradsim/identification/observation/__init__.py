"""Observations: masks, images, vertices or states, and their residuals."""
