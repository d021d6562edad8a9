"""Table 3: soft bodies and cloth."""
