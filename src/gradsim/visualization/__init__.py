"""Images, videos and pages of simulations and fits."""
