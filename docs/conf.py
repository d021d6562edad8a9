"""How the documentation is built: `make docs`. Nothing is run or measured: generated tables are files that tests keep true."""

from importlib.metadata import version as installed

project = "gradsim"
author = "The gradsim contributors"
version = release = installed("gradsim")

extensions = ["myst_nb", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"
exclude_patterns = ["_build", "reference/differentiability_table.md", "tutorials/notebooks"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes and units are in the text
napoleon_google_docstring = True

html_theme = "furo"
html_title = f"gradsim {version}"
html_static_path = ["images"]
