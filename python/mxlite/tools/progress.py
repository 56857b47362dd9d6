"""Shows progress in a log like the tools of 1.x: a line after each 1000 items."""

from __future__ import annotations

import time
from types import TracebackType

from .._progress import Progress


class CountLines(Progress):
    """Progress whose lines are ``time: SECONDS  count: ITEMS``, on the standard output."""

    def _write_lines(self, count: int) -> None:
        first = self.done - count
        for number in range(-(-first // 1000) * 1000, self.done, 1000):
            self._say_count(number)

    def _say_count(self, number: int) -> None:
        now = time.monotonic()
        self.say(f"time: {now - self._shown}  count: {number}")
        self._shown = now

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        if not self._terminal and error is None:
            self._say_count(self.done)
