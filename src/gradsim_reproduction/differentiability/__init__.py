"""Table 6, and gradients against finite differences."""
