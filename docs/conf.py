"""Settings of the documentation: `make docs` builds it. Warnings are errors; nothing is fetched."""

import tagloom

project = "tagloom"
author = "The tagloom developers"
copyright = "The tagloom developers"
version = release = tagloom.__version__

extensions = [
    "myst_parser",  # pages in Markdown
    "sphinx.ext.autodoc",  # the reference, from docstrings
    "numpydoc",  # which are in numpydoc's form
    "sphinx_design",  # the cards of the landing page
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"tagloom {version}"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# `name` in a docstring is the object of that name, where there is one.
default_role = "py:obj"
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"  # the docstrings have types and shapes
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_class_members_toctree = False
