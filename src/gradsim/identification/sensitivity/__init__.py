"""Derivatives of trajectories by unknowns, and how fast they grow."""
