"""Figs. 4, 11 and 12: cost along unknowns."""
