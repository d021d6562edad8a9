"""Soft bodies: solids, cloth and ropes."""
