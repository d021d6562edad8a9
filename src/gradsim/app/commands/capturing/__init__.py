"""Commands that calibrate a camera."""
