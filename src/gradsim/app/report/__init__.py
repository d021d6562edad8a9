"""Report pages of run folders."""
