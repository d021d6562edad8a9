"""Rotations, robust losses, masses of vertices, and formatting of numbers with uncertainties."""
