"""What the site adds to Sphinx: generated reference, short names, redirects, links to sources."""

from __future__ import annotations

import json
import os
import tomllib
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from mxlite._dev import gen_docs, public_names

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LOG = logging.getLogger(__name__)
GENERATED = ("reference/ops/", "reference/api/")
PUBLIC_MODULES = set(public_names.module_paths())
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
REDIRECT = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>This page has moved</title>
<link rel="canonical" href="{target}">
<meta http-equiv="refresh" content="1; url={target}">
<script>location.replace("{target}" + location.hash)</script>
</head>
<body><p>This page has moved to <a href="{target}">{target}</a>.</p></body>
</html>
"""


def generate_reference(app: Sphinx) -> None:
    """Write the pages of operators and modules before Sphinx looks for pages."""
    gen_docs.main()


def resolve_name(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """Resolve the names in signatures, which have no module or that of a private file.

    A last part that one entry of the reference has leads there. Other names stay text, except that
    a name in a public module must exist: it remains a warning.
    """
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    module, _, name = target.rpartition(".")
    entries = env.get_domain("py").objects
    found = [full for full in entries if full.rpartition(".")[2] == name]
    if len(found) != 1:
        return None if module in PUBLIC_MODULES else contnode
    entry = entries[found[0]]
    uri = app.builder.get_relative_uri(node["refdoc"], entry.docname)
    return nodes.reference("", "", contnode, internal=True, refuri=f"{uri}#{entry.node_id}")


def write_redirects(app: Sphinx, failure: Exception | None) -> None:
    """Write a page at each address of ``redirects.json`` that leads to the new one."""
    if failure is not None or app.builder.format != "html":
        return
    for old, new in json.loads((DOCS / "redirects.json").read_text()).items():
        if new not in app.env.found_docs:
            LOG.warning("docs/redirects.json: %s leads to %s, which is no page", old, new)
        target = os.path.relpath(f"{new}.html", os.path.dirname(old) or ".")
        page = Path(app.outdir) / f"{old}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(REDIRECT.format(target=escape(target)))


def add_source(app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Give templates the page's path in the repository, and its address if metadata names one."""
    if page not in app.env.found_docs or page.startswith(GENERATED):
        return
    context["source_path"] = f"docs/{app.env.doc2path(page, base=False)}"
    repository = URLS.get("Repository")
    context["source_url"] = repository and f"{repository}/edit/main/{context['source_path']}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions to Sphinx's events."""
    app.connect("builder-inited", generate_reference)
    app.connect("missing-reference", resolve_name)
    app.connect("html-page-context", add_source)
    app.connect("build-finished", write_redirects)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
