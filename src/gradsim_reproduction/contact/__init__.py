"""Contact between bodies: collisions, piles, articulated bodies."""
