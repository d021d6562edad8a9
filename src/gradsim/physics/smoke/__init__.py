"""Smoke on a staggered grid."""
