"""Real recordings, predicted from a few numbers: one table beside trained networks and trivial predictors."""
