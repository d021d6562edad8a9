"""Rotations, robust losses, and formatting of numbers with uncertainties."""
