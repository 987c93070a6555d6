"""What scripts/docs gives to Sphinx. The sources were put together in a folder as they lie in the tree."""

import os
import sys

sys.path.insert(0, os.environ["MMC_PYTHON_PACKAGE"])

project = "mmchain"
author = "The mmchain authors"
version = release = os.environ["MMC_VERSION"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon",
              "sphinx.ext.doctest"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_heading_anchors = 3
# Links into the sources, which are not pages.
suppress_warnings = ["myst.xref_missing", "myst.header", "ref.python"]
html_theme = "alabaster"
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_theme_options = {
    "description": "Multiplies a chain of matrices in the cheapest order, and says why",
    "fixed_sidebar": True,
    "page_width": "1100px",
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
