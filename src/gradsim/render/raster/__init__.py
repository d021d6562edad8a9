"""Z-buffer, fragments, interpolation of attributes and compositing."""
