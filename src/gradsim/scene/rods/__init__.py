"""Rods of a scene."""
