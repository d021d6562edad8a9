"""Recorded motion of bodies and joints."""
