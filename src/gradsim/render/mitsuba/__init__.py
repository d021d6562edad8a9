"""The path tracer Mitsuba 3 as a renderer (optional)."""
