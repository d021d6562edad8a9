"""gradsim."""
