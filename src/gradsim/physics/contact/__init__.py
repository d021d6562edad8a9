"""Contact: laws, convex shapes, and where bodies touch."""
