"""Tracks of points in a video by their texture, with the noise and the drift of each position."""
