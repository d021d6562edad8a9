"""Goals: states, images and rewards."""
