"""Smoke that forms pictures."""
