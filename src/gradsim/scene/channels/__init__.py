"""Channels of a scene: what the columns of a log mean, and the files that they are read from."""
