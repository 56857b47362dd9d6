"""The base of embeddings: vectors of tokens, read from text files."""

from __future__ import annotations

import logging
import os
import warnings
from array import array
from collections.abc import Iterator, Sequence
from typing import IO, Any, Callable, ClassVar

import numpy as np

from ... import ndarray as nd
from ...base import MissingFileError, MXNetError, ValueError_
from ...ndarray import NDArray
from .local_files import published_file
from .vocab import UNKNOWN_INDEX, TextError, Vocabulary


class UnknownFileError(MXNetError, KeyError):
    """The name of an embedding or of its file is unknown."""

    __str__ = MXNetError.__str__


class MissingEmbeddingError(MissingFileError, ValueError):
    """A file of vectors does not exist (1.x: a ValueError)."""


def _decoded_lines(file: IO[str], path: str) -> Iterator[str]:
    """Yield the lines of a file; raise `TextError` for bytes that are not text."""
    number = 0
    try:
        for line in file:
            number += 1
            yield line
    except UnicodeDecodeError as error:
        raise TextError(
            f"embedding: {path} after line {number}: text must be in {error.encoding}: {error}"
        ) from None


class _TokenEmbedding(Vocabulary):
    """Vectors by token: base of all embeddings, see `CustomEmbedding` for files.

    A subclass that reads published files has ``pretrained_file_name_sha1``, and
    ``pretrained_archive_name_sha1`` if they come in archives.

    Notes
    -----
    Matches ``mxnet.contrib.text.embedding._TokenEmbedding``. Nothing is downloaded.
    """

    pretrained_file_name_sha1: ClassVar[dict[str, str]] = {}

    _vec_len: int
    _idx_to_vec: NDArray

    # -- files -----------------------------------------------------------------------------------

    @classmethod
    def _check_pretrained_file_names(cls, pretrained_file_name: str) -> None:
        if pretrained_file_name not in cls.pretrained_file_name_sha1:
            raise UnknownFileError(
                f"Cannot find pretrained file {pretrained_file_name} for token embedding "
                f"{cls.__name__.lower()}. Valid pretrained files: "
                f"{', '.join(cls.pretrained_file_name_sha1)}"
            )

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        """Return the name of the archive with a file, or the file's name if there is no archive."""
        return pretrained_file_name

    @classmethod
    def _get_pretrained_file(cls, embedding_root: str, pretrained_file_name: str) -> str:
        """Return the path of a published file; unpack its archive if only that exists."""
        folder = os.path.join(os.path.expanduser(embedding_root), cls.__name__.lower())
        return published_file(
            cls.__name__,
            folder,
            pretrained_file_name,
            cls._get_download_file_name(pretrained_file_name),
            cls.pretrained_file_name_sha1[pretrained_file_name],
        )

    def _load_embedding(
        self,
        pretrained_file_path: str,
        elem_delim: str,
        init_unknown_vec: Callable[..., NDArray],
        encoding: str = "utf8",
    ) -> None:
        """Read a file with a token and its vector per line, perhaps with the unknown token.

        The first vector of a token is used. A line with a single number is a header.
        """
        path = os.path.expanduser(pretrained_file_path)
        if not os.path.isfile(path):
            raise MissingEmbeddingError(f"embedding: no file {path}")
        logging.info("Loading pre-trained token embedding vectors from %s", path)
        values, length = array("f"), 0
        unknown: list[float] | None = None
        seen: set[str] = set()
        with open(path, encoding=encoding) as file:
            for number, line in enumerate(_decoded_lines(file, path), 1):
                where = f"embedding: line {number} of {path}"
                token, *texts = line.rstrip().split(elem_delim)
                if not texts:
                    raise TextError(
                        f"{where}: line must be a token and its vector, got {line[:60]!r}"
                    )
                try:
                    vector = [float(text) for text in texts]
                except ValueError as error:
                    raise TextError(f"{where}: {error}") from None
                if token in seen:
                    _warn(f"{where}: a second vector of {token!r} is skipped")
                    continue
                if token == self.unknown_token:
                    unknown = vector
                    seen.add(token)
                    continue
                if len(vector) == 1:
                    _warn(f"{where}: {token!r} with one number is likely a header and is skipped")
                    continue
                length = length or len(vector)
                if len(vector) != length:
                    raise TextError(
                        f"{where}: the vector of {token!r} has {len(vector)} numbers, the previous "
                        f"vectors have {length}"
                    )
                seen.add(token)
                values.extend(vector)
                self._token_to_idx[token] = len(self._idx_to_token)
                self._idx_to_token.append(token)
        if not length:
            raise TextError(f"embedding: {path} has no vectors")
        self._vec_len = length
        table = np.zeros((len(values) // length + 1, length), np.float32)
        table[1:] = np.frombuffer(values, np.float32).reshape(-1, length)
        self._idx_to_vec = nd.array(table)
        if unknown is not None and len(unknown) != length:
            raise TextError(
                f"embedding: {path}: the vector of {self.unknown_token!r} has {len(unknown)} "
                f"numbers, the other vectors have {length}"
            )
        first = init_unknown_vec(shape=length) if unknown is None else nd.array(unknown)
        self._idx_to_vec[UNKNOWN_INDEX] = first

    # -- vocabularies ----------------------------------------------------------------------------

    def _index_tokens_from_vocabulary(self, vocabulary: Vocabulary) -> None:
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._unknown_token = vocabulary.unknown_token
        reserved = vocabulary.reserved_tokens
        self._reserved_tokens = None if reserved is None else list(reserved)

    def _set_idx_to_vec_by_embeddings(
        self, token_embeddings: Sequence[_TokenEmbedding], vocab_len: int, vocab_idx_to_token: Any
    ) -> None:
        """Set the vectors of a vocabulary's tokens to those of embeddings, concatenated."""
        parts = []
        for embedding in token_embeddings:
            rows = [UNKNOWN_INDEX, *embedding.to_indices(list(vocab_idx_to_token[1:vocab_len]))]
            parts.append(embedding._rows(rows))
        self._idx_to_vec = parts[0] if len(parts) == 1 else nd.concat(*parts, dim=1)
        self._vec_len = self._idx_to_vec.shape[1]

    def _build_embedding_for_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """Keep only the tokens of a vocabulary, or all tokens of the file if it is None."""
        if vocabulary is None:
            return
        check_vocabulary(type(self).__name__, vocabulary)
        self._set_idx_to_vec_by_embeddings([self], len(vocabulary), vocabulary.idx_to_token)
        self._index_tokens_from_vocabulary(vocabulary)

    # -- vectors ---------------------------------------------------------------------------------

    @property
    def vec_len(self) -> int:
        """Length of each vector."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> NDArray:
        """Vectors by number of the token, of shape (tokens, vec_len)."""
        return self._idx_to_vec

    def _rows(self, indices: list[int]) -> NDArray:
        return nd.take(self._idx_to_vec, nd.array(indices, dtype="int64"))

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> NDArray:
        """Return vectors of tokens.

        Parameters
        ----------
        tokens : str or list of str
        lower_case_backup : bool
            If a token has no vector, look it up in lower case.

        Returns
        -------
        NDArray
            Array of shape (vec_len,) for a token, (tokens, vec_len) for a list; unknown tokens
            have the vector of number 0.
        """
        many = isinstance(tokens, list)
        entries = tokens if many else [tokens]
        if lower_case_backup:
            known = self._token_to_idx
            entries = [token if token in known else token.lower() for token in entries]
        found = self._rows(self.to_indices(entries))
        return found if many else found[0]

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """Set vectors of tokens.

        Parameters
        ----------
        tokens : str or list of str
        new_vectors : NDArray
            Array of shape (tokens, vec_len); also (vec_len,) for one token.

        Raises
        ------
        ValueError
            For another shape, or an unknown token. To change the vector of unknown tokens, pass the
            unknown token itself.
        """
        entries = tokens if isinstance(tokens, list) else [tokens]
        for token in entries:
            if token not in self._token_to_idx:
                raise ValueError_(
                    f"Token {token} is unknown. To update the embedding vector for an unknown "
                    f"token, give the unknown_token {self.unknown_token} itself"
                )
        if not isinstance(new_vectors, NDArray):
            raise TextError(
                "update_token_vectors: new_vectors must be an NDArray, got "
                f"{type(new_vectors).__name__}"
            )
        allowed: list[tuple[int, ...]] = [(len(entries), self.vec_len)]
        if len(entries) == 1:
            allowed.append((self.vec_len,))
        if tuple(new_vectors.shape) not in allowed:
            raise TextError(
                "update_token_vectors: new_vectors must have shape "
                f"{' or '.join(map(str, allowed))}, got {tuple(new_vectors.shape)}"
            )
        rows = nd.array(self.to_indices(entries), dtype="int64")
        self._idx_to_vec[rows] = new_vectors.reshape(allowed[0])


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)


def check_vocabulary(where: str, vocabulary: Any) -> None:
    """Raise if an argument is not a vocabulary."""
    if not isinstance(vocabulary, Vocabulary):
        raise TextError(
            f"{where}: vocabulary must be a mx.contrib.text.vocab.Vocabulary, got "
            f"{type(vocabulary).__name__}"
        )
