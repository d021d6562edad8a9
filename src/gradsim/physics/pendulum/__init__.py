"""Pendulums with one and two arms."""
