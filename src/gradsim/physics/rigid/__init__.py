"""Rigid bodies, joints and their contacts."""
