"""Commands: from arguments to a run folder."""
