"""Coverage of intervals and verdicts."""
