"""Shows progress: a bar on a terminal, otherwise lines as in 1.x."""

from __future__ import annotations

import importlib
import sys
import time
from types import TracebackType
from typing import Any, TextIO


class Progress:
    """Counts and shows finished items inside a ``with`` block."""

    def __init__(
        self, total: int | None, what: str, done: int = 0, file: TextIO | None = None
    ) -> None:
        self.done = done
        self._file = file
        self._bar: Any = None
        self._shown = time.time()
        if not sys.stderr.isatty():
            return
        try:
            tqdm = importlib.import_module("tqdm").tqdm
        except ImportError:
            return
        self._bar = tqdm(total=total, desc=what, initial=done, dynamic_ncols=True)

    def add(self, count: int) -> None:
        """Add `count` finished items."""
        before, self.done = self.done, self.done + count
        if self._bar is not None:
            self._bar.update(count)
            return
        for number in range(-(-before // 1000) * 1000, self.done, 1000):
            self._say_count(number)

    def _say_count(self, number: int) -> None:
        now = time.time()
        self.say(f"time: {now - self._shown}  count: {number}")
        self._shown = now

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if self._bar is None:
            print(line, flush=True, file=self._file)
        else:
            self._bar.write(line)

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
        elif error is None:
            self._say_count(self.done)
