"""Tasks of control as YAML, and what they set up."""
