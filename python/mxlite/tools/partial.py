"""An unfinished record file, with a temporary name and a journal for continuing it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from .. import _core
from .._files.native import native_name
from ..base import MXNetError


def fingerprint(path: str, settings: dict[str, Any]) -> str:
    """Return a hash of a list and the settings."""
    digest = hashlib.sha256(Path(path).read_bytes())
    digest.update(json.dumps(settings, sort_keys=True).encode())
    return digest.hexdigest()


def _is_state(entry: Any) -> bool:
    """Return whether a journal line has all entries that `PartialRecord.commit` writes."""
    if not isinstance(entry, dict) or not isinstance(entry.get("bad"), list):
        return False
    numbers = [entry.get(name) for name in ("done", "record", "index")]
    return all(type(number) is int and number >= 0 for number in numbers) and all(
        isinstance(text, str) for text in entry["bad"]
    )


class PartialRecord:
    """The files ``<stem>.rec`` and ``<stem>.idx`` before they are complete.

    Attributes
    ----------
    done : int
        Number of images that were written or failed.
    bad : list of str
        Errors of the images that failed.
    writer : RecordWriter
    """

    def __init__(self, stem: str, key: str) -> None:
        self.record, self.index = Path(stem + ".rec"), Path(stem + ".idx")
        self._record, self._index = Path(stem + ".rec.partial"), Path(stem + ".idx.partial")
        self._journal = Path(stem + ".rec.journal")
        self.done = 0
        self.bad: list[str] = []
        self._lines: list[str] = []
        self._known = 0  # number of entries of `bad` that are in the journal
        state = self._resume(key)
        if state is None:
            self._journal.write_text(json.dumps({"key": key}) + "\n", encoding="utf-8")
            self.writer = _core.RecordWriter(native_name(self._record))
            self._index_file = open(self._index, "w", encoding="utf-8")  # noqa: SIM115
        else:
            self.writer = _core.RecordWriter(native_name(self._record), state["record"])
            os.truncate(self._index, state["index"])
            self._index_file = open(self._index, "a", encoding="utf-8")  # noqa: SIM115
        self._journal_file = open(self._journal, "a", encoding="utf-8")  # noqa: SIM115

    def _resume(self, key: str) -> dict[str, int] | None:
        """Return the last journal state that matches the files, or None to start again."""
        try:
            first, *lines = self._journal.read_text(encoding="utf-8").splitlines()
            if json.loads(first) != {"key": key}:
                return None
            sizes = self._record.stat().st_size, self._index.stat().st_size
        except (OSError, ValueError, RecursionError):
            return None
        state: dict[str, int] | None = None
        valid = [first]
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):  # an incomplete line
                entry = json.loads(line)
                if not _is_state(entry) or entry["record"] > sizes[0] or entry["index"] > sizes[1]:
                    break
                state = entry
                valid.append(line)
                self.done = entry["done"]
                self.bad += entry["bad"]
        if state is None or not self._whole(state["record"]):
            self.done, self.bad = 0, []
            return None
        self._known = len(self.bad)
        self._journal.write_text("\n".join(valid) + "\n", encoding="utf-8")
        return state

    def _whole(self, size: int) -> bool:
        """Return whether the first bytes are complete records; a power failure may damage them."""
        reader = _core.RecordReader(native_name(self._record))
        try:
            while reader.tell() < size:
                reader.skip()
        except MXNetError:
            return False
        return bool(reader.tell() == size)

    def add_index(self, key: int, offset: int) -> None:
        """Add a record to the index."""
        self._lines.append(f"{key}\t{offset}\n")

    def commit(self, count: int) -> None:
        """Record in the journal that `count` more images are done."""
        self.done += count
        self.writer.flush()
        self._index_file.write("".join(self._lines))
        self._index_file.flush()
        self._lines.clear()
        entry = {
            "done": self.done,
            "record": self.writer.tell(),
            "index": self._index_file.tell(),
            "bad": self.bad[self._known :],
        }
        self._known = len(self.bad)
        self._journal_file.write(json.dumps(entry) + "\n")
        self._journal_file.flush()

    def finish(self) -> None:
        """Rename the files; delete the old index first, so that no new record has an old index."""
        self.writer.sync()
        self.writer.close()
        os.fsync(self._index_file.fileno())
        self._index_file.close()
        self.index.unlink(missing_ok=True)
        self._record.replace(self.record)
        self._index.replace(self.index)
        self._journal_file.close()
        self._journal.unlink()

    def __enter__(self) -> PartialRecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for file in (self._index_file, self._journal_file):
            with contextlib.suppress(OSError):  # a full disk has been reported already
                file.close()
