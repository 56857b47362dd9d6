"""The failure of a pipeline's stage, as the ranks of the other stages report it."""

from __future__ import annotations

import re

__all__ = ["failure_text"]

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
