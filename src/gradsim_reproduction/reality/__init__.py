"""Real recordings, predicted from a few numbers: one table compared with trained networks and trivial predictors."""
