"""Videos as a stranger would make them, fitted from their files alone."""
