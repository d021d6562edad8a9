"""Table 4 (right): time of simulation and identification."""
