"""Goals: states, images, and their rewards."""
