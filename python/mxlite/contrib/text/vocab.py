"""Numbering of tokens (``mx.contrib.text.vocab``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...base import ValueError_

__all__ = ["UNKNOWN_INDEX", "TextError", "Vocabulary"]

UNKNOWN_INDEX = 0


class TextError(ValueError_, AssertionError):
    """Arguments or files that are invalid for a vocabulary or embedding."""


class Vocabulary:
    """Tokens and their numbers: the unknown token is 0, then reserved ones, then by frequency.

    Parameters
    ----------
    counter : collections.Counter, optional
        Frequencies of tokens; equally frequent tokens are numbered in sorted order.
    most_freq_count : int, optional
        Largest number of tokens of ``counter`` to use; None: all.
    min_freq : int
        Tokens that are rarer are left out.
    unknown_token : hashable
        Token that represents all tokens without a number.
    reserved_tokens : list of hashable, optional
        Tokens that always have a number, such as a padding token.

    Raises
    ------
    ValueError
        For a min_freq below 1, for reserved tokens that repeat or contain the unknown token, and
        for a counter of another type.
    """

    _idx_to_token: list[Any]
    _token_to_idx: dict[Any, int]

    def __init__(
        self,
        counter: Counter[Any] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: Sequence[Hashable] | None = None,
    ) -> None:
        if min_freq < 1:
            raise TextError(f"Vocabulary: min_freq must be 1 or more, got {min_freq}")
        if counter is not None and not isinstance(counter, Counter):
            raise TextError(
                f"Vocabulary: counter must be a collections.Counter, got {type(counter).__name__}"
            )
        reserved = None if reserved_tokens is None else list(reserved_tokens)
        if reserved is not None and unknown_token in reserved:
            raise TextError(
                f"Vocabulary: reserved_tokens {reserved} contain unknown_token {unknown_token!r}"
            )
        if reserved is not None and len(set(reserved)) < len(reserved):
            raise TextError(f"Vocabulary: reserved_tokens {reserved} contain a token twice")
        self._unknown_token: Any = unknown_token
        self._reserved_tokens: list[Any] | None = reserved
        first = [unknown_token, *(reserved or ())]
        self._idx_to_token = first + _frequent(counter, set(first), most_freq_count, min_freq)
        self._token_to_idx = {token: index for index, token in enumerate(self._idx_to_token)}

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """Numbers by token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """Tokens by number."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """The token that represents all unknown tokens."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """The tokens that are always numbered; None if none were given."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """Return the number of a token, or a list of them for a list; 0 for unknown ones."""
        if not isinstance(tokens, list):
            return self._token_to_idx.get(tokens, UNKNOWN_INDEX)
        return [self._token_to_idx.get(token, UNKNOWN_INDEX) for token in tokens]

    def to_tokens(self, indices: Any) -> Any:
        """Return the tokens with the given numbers.

        Parameters
        ----------
        indices : int or list of int

        Returns
        -------
        hashable or list of hashable

        Raises
        ------
        ValueError
            For a number that no token has.
        """
        if isinstance(indices, list):
            return [self.to_tokens(index) for index in indices]
        if not isinstance(indices, (int, np.integer)) or not 0 <= indices < len(self):
            raise ValueError_(
                f"to_tokens: indices must be integers from 0 to {len(self) - 1}, got {indices!r}"
            )
        return self._idx_to_token[indices]


def _frequent(
    counter: Counter[Any] | None, taken: set[Any], limit: int | None, min_freq: int
) -> list[Any]:
    """Return the tokens of a counter that have no index yet, most frequent first."""
    # Two stable sorts: by token ascending, then by frequency descending.
    ranked = sorted((counter or {}).items(), key=lambda pair: pair[0])
    ranked.sort(key=lambda pair: pair[1], reverse=True)
    tokens = [token for token, count in ranked if count >= min_freq and token not in taken]
    return tokens if limit is None else tokens[:limit]
