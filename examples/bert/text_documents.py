"""Documents of sentences from text and HTML files."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

FEWEST_WORDS = 4  # shorter paragraphs are headings, page numbers and names
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])")
_BLOCKS = {"p", "div", "li", "dd", "dt", "td", "th", "br", "h1", "h2", "h3", "h4", "h5", "pre"}
_HIDDEN = {"script", "style", "head", "nav", "footer"}


class _Text(HTMLParser):
    """Collect the text of a page, with a blank line between blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begin a block, or a part that is not shown."""
        self._hidden += tag in _HIDDEN
        if tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        """End a block, or a part that is not shown."""
        self._hidden -= tag in _HIDDEN and self._hidden > 0
        if tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        """Keep text that is shown."""
        if not self._hidden:
            self.parts.append(data)


def paragraphs(path: Path) -> list[str]:
    """Return the paragraphs of a file, each in one line.

    Parameters
    ----------
    path : Path
        A file in UTF-8 or Latin-1, which is HTML if its name says so.

    Returns
    -------
    list of str
        Paragraphs of at least four words, in normal form NFC.

    Raises
    ------
    SystemExit
        If the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SystemExit(f"bert: {path} cannot be read: {error}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    if path.suffix in (".html", ".htm"):
        parser = _Text()
        parser.feed(text)
        text = "".join(parser.parts)
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n"))
    joined = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    return [block for block in joined if len(block.split()) >= FEWEST_WORDS]


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph.

    Parameters
    ----------
    paragraph : str
        Text in one line.

    Returns
    -------
    list of str
    """
    return [part for part in _SENTENCE_END.split(paragraph) if part.strip()]


def sentence_documents(path: Path) -> Iterator[list[str]]:
    """Yield documents of a file with one sentence a line and blank lines between documents.

    Parameters
    ----------
    path : Path
        gluon-nlp's form of raw text, UTF-8.

    Yields
    ------
    list of str
    """
    document: list[str] = []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"bert: {path} cannot be read: {error}") from None
    for line in [*lines, ""]:
        if line.strip():
            document.append(line.strip())
        elif document:
            yield document
            document = []


def file_documents(paths: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """Yield name and sentences of each file, without paragraphs that an earlier file has.

    Parameters
    ----------
    paths : list of Path
        Files of prose.

    Yields
    ------
    tuple of str and list of str
    """
    seen: set[bytes] = set()
    for path in paths:
        found = []
        for paragraph in paragraphs(path):
            digest = hashlib.blake2b(paragraph.encode(), digest_size=12).digest()
            if digest not in seen:
                seen.add(digest)
                found += sentences(paragraph)
        if found:
            yield path.name, found


def _place(name: str) -> float:
    """Return a number from 0 to 1 that only depends on the name."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def is_held_out(name: str, share: float) -> bool:
    """Return whether a document belongs to the evaluation, by a hash of its name.

    Parameters
    ----------
    name : str
        File name, or file name and number.
    share : float
        Approximate share of documents that are held out.

    Returns
    -------
    bool
    """
    return _place(name) < share


def held_out(names: list[str], share: float) -> set[str]:
    """Return the names of the evaluation's documents: as `is_held_out`, but at least two.

    Parameters
    ----------
    names : list of str
        Names of all documents.
    share : float
        As in `is_held_out`.

    Returns
    -------
    set of str

    Raises
    ------
    SystemExit
        If fewer than two documents remain for the training or the evaluation.
    """
    order = sorted(set(names), key=_place)
    chosen = set(order[: max(2, sum(is_held_out(name, share) for name in order))])
    training = sum(name not in chosen for name in names)
    if min(training, len(chosen)) < 2:
        raise SystemExit(
            "bert: training and evaluation must have at least 2 documents with text each, got "
            f"{training} and {len(names) - training}: give more files, with --raw a blank line "
            "between documents, or a smaller --eval_share"
        )
    return chosen
