"""Lights, laws of shading, textures and colors of surfaces."""
