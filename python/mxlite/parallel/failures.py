"""The failure of a pipeline's stage, as the ranks of the other stages report it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

from .. import _core
from ..base import MXNetError
from ..ndarray import NDArray

__all__ = ["failure_text", "send_failed"]

# Number of characters of an exception's text that other ranks get.
_CHARACTERS = 1000
_FAILURE = re.compile(
    r"stage \d+ on rank \d+ has failed: .*?(?=\n    while running |$)",  # without "while ..."
    re.DOTALL,
)


def failure_text(stage: int, rank: int, error: Exception) -> str:
    """Return the message to the other stages if a stage has raised an error."""
    known = _FAILURE.search(str(error))
    if known:
        return known.group()
    text = f"{type(error).__name__}: {error}"
    return f"stage {stage} on rank {rank} has failed: {text[:_CHARACTERS]}"


def send_failed(
    send: Callable[[list[NDArray]], list[NDArray]], shape: tuple[int, ...], dtype: str, text: str
) -> None:
    """Call ``send`` with an array that fails with ``text``; the receivers' arrays fail, too."""
    failed = _core.AwaitedArray(shape, dtype, "Pipeline")
    results = send([failed.array])
    failed.fail(text)
    for array in (failed.array, *results):  # read the errors, so that waitall does not raise them
        with contextlib.suppress(MXNetError):
            array.wait_to_read()
