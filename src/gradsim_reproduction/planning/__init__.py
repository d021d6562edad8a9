"""Predictions of plans against refits, and what the changes that they name do."""
