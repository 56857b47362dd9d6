"""Extends Sphinx: generated reference, short names, redirects, links to sources."""

from __future__ import annotations

import builtins
import json
import os
import re
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import Any

import public_names
import reference_pages
import tomllib
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LOG = logging.getLogger(__name__)
GENERATED = ("reference/ops/", "reference/api/")
# Pages that show files which stand elsewhere in the repository.
COPIES = {
    "dev/contributing": "CONTRIBUTING.md",
    "dev/benchmarks": "benchmarks/README.md",
    "dev/dlperf_steps": "benchmarks/dlperf/step.md",
}
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"(`[^`]*`)")
MARKUP = re.compile(r"(?<![\w*\\])\*(?=[\w(,])(?!\*)|(?<=[a-z])_(?!\w)")
BY_NAME: dict[str, list[str]] = defaultdict(list)  # full names by their last part
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
    reference_pages.write_pages()
    for fault in public_names.faults():
        LOG.warning("%s", fault)


def read_source(_app: Sphinx, page: str, source: list[str]) -> None:
    """Fill pages that show a file of the repository; links to such files lead to those pages."""
    origin = Path(COPIES.get(page, f"docs/{page}.md"))
    if page in COPIES:
        source[0] = (ROOT / origin).read_text()
    pages = {file: f"docs/{copy}.md" for copy, file in COPIES.items()}

    def lead(match: re.Match[str]) -> str:
        path, _, anchor = match[1].partition("#")
        file = os.path.normpath(origin.parent / path)
        if "://" in path or not path or (page not in COPIES and file not in pages):
            return match[0]
        target = os.path.relpath(pages.get(file, file), f"docs/{os.path.dirname(page)}")
        return f"]({target}{'#' * bool(anchor)}{anchor})"

    source[0] = LINK.sub(lead, source[0])


def add_sections(_app: Sphinx, what: str, full: str, value: Any, _options: Any, lines: Any) -> None:
    """Add the parameters and results of ``parameters.txt`` to docstrings that lack them."""
    path, _, name = full.rpartition(".")
    if what in {"function", "class"} and path in PUBLIC_MODULES:
        lines += public_names.added_sections(path, name, value)


def escape_docstring(_app: Sphinx, _what: str, _name: str, *rest: Any) -> None:
    """Escape what reStructuredText would read as markup: docstrings have only text and code."""
    lines = rest[-1]
    for i, line in enumerate(lines):
        parts = CODE.split(line)  # every second part is code
        parts[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
        lines[i] = "".join(parts)


def drop_foreign_names(_app: Sphinx, tree: nodes.document) -> None:
    """Make text of references to Python's own types and to private names."""
    for node in list(tree.findall(pending_xref)):
        name = str(node.get("reftarget")).rpartition(".")[2]
        if node.get("refdomain") == "py" and (hasattr(builtins, name) or name[:1] == "_"):
            node.replace_self(node.children)


def name_written_files(_app: Sphinx, tree: nodes.document) -> None:
    """Show the file name of `%%writefile` cells above the block, which is then the whole file."""
    for block in list(tree.findall(nodes.literal_block)):
        first, _, rest = block.astext().partition("\n")
        if not first.startswith("%%writefile "):
            continue
        shown = nodes.literal_block(rest, rest, **block.attributes)
        name = first.split()[1]
        ids = [nodes.make_id(name)]
        caption = nodes.caption("", name)
        block.replace_self(nodes.container("", caption, shown, literal_block=True, ids=ids))


def resolve_name(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """Resolve the names in signatures, which have no module or that of a private file.

    If the last part of a name is that of exactly one entry of the reference, the name links to this
    entry. Other names stay text, but an unknown name in a public module remains a warning.
    """
    if node.get("refdomain") != "py":
        return None
    entries = env.get_domain("py").objects
    if not BY_NAME:
        for full in entries:
            BY_NAME[full.rpartition(".")[2]].append(full)
    module, _, name = str(node["reftarget"]).rpartition(".")
    found = BY_NAME.get(name, [])
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
    context["source_path"] = COPIES.get(page, f"docs/{app.env.doc2path(page, base=False)}")
    repository = URLS.get("Repository")
    context["source_url"] = repository and f"{repository}/edit/main/{context['source_path']}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions to Sphinx's events."""
    app.connect("builder-inited", generate_reference)
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", add_sections, priority=400)  # before numpydoc
    app.connect("autodoc-process-docstring", escape_docstring, priority=600)  # after numpydoc
    app.connect("doctree-read", drop_foreign_names)
    app.connect("doctree-read", name_written_files)
    app.connect("missing-reference", resolve_name)
    app.connect("html-page-context", add_source)
    app.connect("build-finished", write_redirects)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
