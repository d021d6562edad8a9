"""The order of imports, from the lowest floor up; docs/developer/architecture.md shows the same."""

FLOORS = (  # packages of one floor do not know one another, but for the lowest
    ("errors", "runtime", "numerics", "geometry"),
    ("engine", "scene"),
    ("physics", "render", "video"),
    ("losses",),
    ("identification", "control"),
    ("dataset", "planning", "visualization"),
    ("app",),
)
