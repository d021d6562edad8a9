"""How the documentation is built: `make docs`."""

from importlib.metadata import version as installed

project = "gradsim"
author = "The gradsim contributors"
version = release = installed("gradsim")

extensions = ["myst_nb"]
myst_enable_extensions = ["amsmath", "dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"gradsim {version}"
