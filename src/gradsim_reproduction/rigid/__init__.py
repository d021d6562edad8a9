"""Tables 1 and 2: mass and contact parameters of rigid bodies."""
