"""What the commands do: from arguments to a run folder."""
