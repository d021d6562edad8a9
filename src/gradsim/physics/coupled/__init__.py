"""Soft and rigid bodies that touch one another, in one rollout."""
