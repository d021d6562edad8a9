"""Real recordings: a tossed cube, a beam, a pendulum."""
