"""Exact area coverage of pixels by bodies."""
