"""Candidate models and how well each predicts recordings that it was not fitted to."""
