"""Antialiased silhouettes: exact area shares along edges."""
