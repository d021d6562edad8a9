"""The DIB-R rasterizer."""
