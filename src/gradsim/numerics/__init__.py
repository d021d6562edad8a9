"""Rotations, robust losses, and numbers with their errors as text."""
