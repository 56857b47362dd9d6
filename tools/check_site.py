#!/usr/bin/env python3
"""Checks the built site: links lead to pages and anchors, and no page loads from another host.

Usage: ``check_site.py FOLDER``; prints ``page:line: problem`` and ends with exit code 1 if there is
any. Links that a reader may follow to other hosts are allowed, and their number is printed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose target the browser loads without a click.
LOADED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
LOADING_RELATIONS = {"stylesheet", "icon", "shortcut icon", "preload", "manifest"}
LARGEST_PAGE = 550_000  # bytes
LARGEST_SITE = 60_000_000


class Page(HTMLParser):
    """The anchors and targets of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[tuple[int, str, bool]] = []  # line, address, loaded by the browser
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect the ids, links and sources of an element."""
        values = {name: value or "" for name, value in attributes}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name in ("href", "src"):
            if name in values:
                loaded = (tag, name) in LOADED or values.get("rel") in LOADING_RELATIONS
                self.targets.append((self.getpos()[0], values[name], loaded))


def problems(folder: Path) -> tuple[list[str], int]:
    """Return the faults of a site, and the number of its links to other hosts."""
    files = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    found, outside = [], 0
    for path, page in sorted(pages.items()):
        if path.stat().st_size > LARGEST_PAGE:
            found.append(f"{path}:1: has {path.stat().st_size} bytes, limit {LARGEST_PAGE}")
        for line, address, loaded in page.targets:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                outside += parts.scheme != "data"
                if loaded and parts.scheme != "data":
                    found.append(f"{path}:{line}: loads {address} from another host")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            known = pages.get(target)
            if not target.is_file():
                found.append(f"{path}:{line}: {address}: there is no such file")
            elif parts.fragment and known and unquote(parts.fragment) not in known.anchors:
                found.append(f"{path}:{line}: {address}: the page has no such anchor")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > LARGEST_SITE:
        found.append(f"{folder}:1: has {size} bytes, limit {LARGEST_SITE}")
    return found, outside


def main() -> int:
    """Print the problems of the folder in the command line."""
    folder = Path(sys.argv[1]).resolve()
    if not (folder / "index.html").is_file():
        print(f"check_site: {folder} must be a built site with index.html", file=sys.stderr)
        return 2
    found, outside = problems(folder)
    print("\n".join(found) or f"no dead link; {outside} links to other hosts")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
