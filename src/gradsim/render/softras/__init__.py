"""The SoftRas rasterizer."""
