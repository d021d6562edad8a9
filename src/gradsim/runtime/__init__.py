"""Files, checkpoints, progress, workers and provenance of runs."""
