"""Recordings that vertices or bodies follow."""
