"""Meshes, sheets, tetrahedra, networks and images: what physics and rendering share."""
