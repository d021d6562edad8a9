"""Training of policies by gradients through the simulation."""
