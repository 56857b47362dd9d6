"""Tables that notebooks show for arrays and blocks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]], below: str = "") -> str:
    """Return an HTML table, with preformatted text below it; escapes cells and text."""

    def row(cells: Iterable[object], tag: str) -> str:
        made = "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
        return f"<tr>{made}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    text = f"<pre>{html.escape(below)}</pre>" if below else ""
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>{text}"
