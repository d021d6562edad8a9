"""Rods of a scene, and recordings that their vertices follow."""
