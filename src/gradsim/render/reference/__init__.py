"""Renderers of plain NumPy, independent of the kernels, to compare with."""
