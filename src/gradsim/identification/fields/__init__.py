"""Fields of unknowns, such as a stiffness for each element, with a smoothness prior."""
