"""Videos that share no code with the product: its answers on trajectories and images of others."""
