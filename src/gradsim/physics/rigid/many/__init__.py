"""Many rigid bodies at once: what equal ones share, their numbers side by side, and bounds of their steps."""
