"""Error bars: Fisher information, profiles, samples, and residual diagnostics."""
