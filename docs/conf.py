"""Configuration of the documentation site; ``make docs`` builds it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import mxlite

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "mxlite"
author = "mxlite developers"
copyright = "mxlite developers; Apache License 2.0"
version = release = mxlite.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "site_rules",
]
exclude_patterns = ["trials", "pictures/*.md"]
default_role = "code"
nitpicky = True

suppress_warnings = ["toc.empty_glob"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = os.environ.get("MXLITE_DOCS_EXECUTION", "cache")
nb_execution_timeout = 120
nb_execution_in_temp = True  # lessons write files
nb_execution_raise_on_error = True
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks" / version)
nb_merge_streams = True

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"DTypeLike": "DTypeLike"}
numpydoc_show_class_members = False
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = f"mxlite {version}"
html_static_path = ["_static"]
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # a summary fetches its page, which file:// does not allow
html_theme_options = {
    "navbar_end": ["version-menu", "theme-switcher"],
    "secondary_sidebar_items": ["page-toc", "edit-page"],
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "logo": {"text": "mxlite"},
}
html_context = {
    "default_mode": "auto",
    "versions": json.loads((HERE / "_static" / "switcher.json").read_text()),
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
