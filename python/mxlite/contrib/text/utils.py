"""Counts of tokens (``mx.contrib.text.utils``)."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    r"""Count the tokens of a text.

    Parameters
    ----------
    source_str : str
    token_delim, seq_delim : str
        Regular expressions of the delimiters between tokens and between sequences.
    to_lower : bool
        Count tokens in lower case.
    counter_to_update : collections.Counter, optional
        Counter to which the counts are added; by default, a new one.

    Returns
    -------
    collections.Counter
        ``counter_to_update`` if it is given.

    Examples
    --------
    >>> count_tokens_from_str(" Life is life \n", to_lower=True)
    Counter({'life': 2, 'is': 1})
    """
    tokens = [token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token]
    counter = Counter() if counter_to_update is None else counter_to_update
    counter.update(token.lower() if to_lower else token for token in tokens)
    return counter
