"""Table 4 (left): fits by a wrong model."""
