"""Models that leave for other engines, and fits in them."""
