"""Controllers: policies that set what a model does, and their training from pictures of a goal."""
