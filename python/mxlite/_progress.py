"""Shows the progress of long work: a bar on a terminal, log lines elsewhere.

The lines go to the logger ``mxlite.progress`` at level INFO, at most one in ten seconds.
"""

from __future__ import annotations

import importlib
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import Any, TypeVar

Item = TypeVar("Item")

_log = logging.getLogger("mxlite.progress")
_BAR_SECONDS, _LINE_SECONDS = 0.1, 10.0


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class Progress:
    """Counts and shows finished items inside a ``with`` block, with tqdm if it is installed."""

    def __init__(
        self, total: int | None, what: str, done: int = 0, unit: str = "it", keep: bool = True
    ) -> None:
        self.total, self.what, self.done, self.unit = total, what, done, unit
        self._keep = keep  # whether the finished bar stays on the terminal
        self._before = done
        self._begin = self._shown = time.monotonic()
        self._terminal = _on_terminal()
        self._bar: Any = None
        if self._terminal:
            try:
                tqdm = importlib.import_module("tqdm").tqdm
            except ImportError:
                return
            scale = unit == "B"
            self._bar = tqdm(
                total=total, desc=what, initial=done, unit=unit, unit_scale=scale, leave=keep,
                dynamic_ncols=True, file=sys.stderr,
            )  # fmt: skip

    def add(self, count: int = 1) -> None:
        """Add `count` finished items."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._terminal:
            self._show(_BAR_SECONDS)
        else:
            self._write_lines(count)

    def _write_lines(self, count: int) -> None:
        """Write what a log shows after `count` further items."""
        self._show(_LINE_SECONDS)

    def _show(self, interval: float) -> None:
        now = time.monotonic()
        if now - self._shown < interval:
            return
        self._shown = now
        if self._terminal:
            print(f"\r\x1b[K{self._text()}", end="", flush=True, file=sys.stderr)
        else:
            _log.info("%s", self._text())

    def _text(self) -> str:
        speed = (self.done - self._before) / max(time.monotonic() - self._begin, 1e-9)
        share = left = ""
        if self.total:
            share = f" of {self.total} ({100 * self.done // self.total} %)"
            left = f", {max(self.total - self.done, 0) / speed:.0f} s left" if speed else ""
        return f"{self.what}: {self.done}{share}, {speed:.1f} {self.unit}/s{left}"

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.write(line)
            return
        if self._terminal:
            print("\r\x1b[K", end="", flush=True, file=sys.stderr)
        print(line, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._terminal:
            last = f"{self._text()}\n" if self._keep else ""
            print(f"\r\x1b[K{last}", end="", flush=True, file=sys.stderr)


def track(
    items: Iterable[Item], what: str, unit: str = "batch", quiet: bool = False
) -> Iterator[Item]:
    """Yield the items; unless `quiet`, show how many have been used; remove the bar at the end."""
    if quiet:
        yield from items
        return
    total = len(items) if isinstance(items, Sized) else None
    with Progress(total, what, unit=unit, keep=False) as progress:
        for item in items:
            yield item
            progress.add()
