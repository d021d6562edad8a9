"""Viewer of scenes and fits in the browser."""
