"""Data sets for language models (``mx.gluon.contrib.data.text``)."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, ClassVar

import numpy as np

from .... import ndarray as nd
from ...._files.whole import open_text
from ....base import ValueError_, data_dir, suggestion
from ....contrib.text.local_files import published_file
from ....contrib.text.utils import count_tokens_from_str
from ....contrib.text.vocab import Vocabulary
from ...data import Dataset

__all__ = ["WikiText2", "WikiText103"]

_EOS = "<eos>"
_FILES = {
    "train": "wiki.train.tokens",
    "validation": "wiki.valid.tokens",
    "test": "wiki.test.tokens",
}


class _WikiText(Dataset):
    """Sequences of token numbers; labels are the tokens that follow."""

    _archive: ClassVar[str]
    _sha1: ClassVar[dict[str, str]]

    def __init__(self, root: str, segment: str, vocab: Vocabulary | None, seq_len: int) -> None:
        where = type(self).__name__
        if segment not in _FILES:
            raise ValueError_(
                f"{where}: segment must be one of {', '.join(_FILES)}, got "
                f"{segment!r}{suggestion(segment, _FILES)}"
            )
        if seq_len < 1:
            raise ValueError_(f"{where}: seq_len must be 1 or more, got {seq_len}")
        path = published_file(
            where, os.path.expanduser(root), _FILES[segment], self._archive, self._sha1[segment]
        )
        with open_text(path) as file:
            content = file.read()
        self._counter = None if vocab is not None else count_tokens_from_str(content)
        self._vocab = Vocabulary(self._counter, reserved_tokens=[_EOS]) if vocab is None else vocab
        tokens: list[str] = []
        for line in content.splitlines():
            words = line.split()
            if words:
                tokens += words
                tokens.append(_EOS)
        numbers = np.array(self._vocab.to_indices(tokens), np.int32)
        count = max(len(numbers) - 1, 0) // seq_len
        shape = (count, seq_len)
        self._data = nd.array(numbers[: count * seq_len].reshape(shape), dtype=np.int32)
        self._label = nd.array(numbers[1 : count * seq_len + 1].reshape(shape), dtype=np.int32)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens and their numbers."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str] | None:
        """Number of times each token is in the text; None if a vocabulary was given."""
        return self._counter

    def __getitem__(self, idx: Any) -> tuple[nd.NDArray, nd.NDArray]:
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)


class WikiText2(_WikiText):
    """WikiText-2 as sequences of token numbers; each sentence ends with ``<eos>``.

    Matches ``mxnet.gluon.contrib.data.text.WikiText2``.

    Parameters
    ----------
    root : str
        Folder with ``wiki.train.tokens``, ``wiki.valid.tokens`` and ``wiki.test.tokens``, or with
        the published archive ``wikitext-2-v1.zip``.
    segment : str
        ``'train'``, ``'validation'`` or ``'test'``.
    vocab : Vocabulary, optional
        By default, the tokens of this segment.
    seq_len : int
        Tokens in each sample.

    Raises
    ------
    MissingFileError
        If there is neither file nor archive; nothing is downloaded.
    ValueError
        For other segments.
    """

    _archive = "wikitext-2-v1.zip"
    _sha1: ClassVar[dict[str, str]] = {
        "train": "863f29c46ef9d167fff4940ec821195882fe29d1",
        "validation": "0418625c8b4da6e4b5c7a0b9e78d4ae8f7ee5422",
        "test": "c7b8ce0aa086fb34dab808c5c49224211eb2b172",
    }

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "wikitext-2"),
        segment: str = "train",
        vocab: Vocabulary | None = None,
        seq_len: int = 35,
    ) -> None:
        super().__init__(root, segment, vocab, seq_len)


class WikiText103(_WikiText):
    """WikiText-103, see `WikiText2`; its archive is ``wikitext-103-v1.zip``.

    Matches ``mxnet.gluon.contrib.data.text.WikiText103``.

    Parameters
    ----------
    root, segment, vocab, seq_len
        As in `WikiText2`.
    """

    _archive = "wikitext-103-v1.zip"
    _sha1: ClassVar[dict[str, str]] = {
        "train": "b7497e2dfe77e72cfef5e3dbc61b7b53712ac211",
        "validation": "c326ac59dc587676d58c422eb8a03e119582f92b",
        "test": "8a5befc548865cec54ed4273cf87dbbad60d1e47",
    }

    def __init__(
        self,
        root: str = os.path.join(data_dir(), "datasets", "wikitext-103"),
        segment: str = "train",
        vocab: Vocabulary | None = None,
        seq_len: int = 35,
    ) -> None:
        super().__init__(root, segment, vocab, seq_len)
