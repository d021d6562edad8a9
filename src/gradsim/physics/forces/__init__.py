"""Forces on soft bodies: one formula a file, assembled into loops over elements."""
