"""Vectors of tokens (``mx.contrib.text.embedding``)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, ClassVar

from ... import ndarray as nd
from ... import registry
from ...base import data_dir
from ...ndarray import NDArray
from .token_embedding import UnknownFileError, _TokenEmbedding, check_vocabulary
from .vocab import TextError, Vocabulary

__all__ = [
    "CompositeEmbedding",
    "CustomEmbedding",
    "FastText",
    "GloVe",
    "create",
    "get_pretrained_file_names",
    "register",
]

# SHA-1 of the published archives and the files in them, by name, from 1.9.1's list.
_PUBLISHED: dict[str, dict[str, dict[str, str]]] = json.loads(
    (Path(__file__).parent / "published.json").read_text()
)


def _default_root() -> str:
    return os.path.join(data_dir(), "embeddings")


_register = registry.get_register_func(_TokenEmbedding, "token embedding")
_create = registry.get_create_func(_TokenEmbedding, "token embedding")


def register(embedding_cls: type) -> type:
    """Register a class of embeddings under its lower-case name, for `create`; return it."""
    return _register(embedding_cls)


def create(embedding_name: str, **kwargs: Any) -> Any:
    """Make an embedding from a name, such as ``'glove'`` or ``'fasttext'``.

    Parameters
    ----------
    embedding_name : str
        Case does not matter.
    **kwargs
        Arguments of the class, such as ``pretrained_file_name``.

    Returns
    -------
    _TokenEmbedding
    """
    return _create(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """Return the names of published files.

    Parameters
    ----------
    embedding_name : str, optional
        By default, the files of all embeddings.

    Returns
    -------
    list of str, or dict of str to list of str

    Raises
    ------
    KeyError
        For an unknown name.
    """
    known = registry.get_registry(_TokenEmbedding)
    if embedding_name is None:
        return {name: list(klass.pretrained_file_name_sha1) for name, klass in known.items()}
    if embedding_name not in known:
        raise UnknownFileError(
            f"Cannot find `embedding_name` {embedding_name}. Known: {', '.join(known)}"
        )
    return list(known[embedding_name].pretrained_file_name_sha1)


class _PublishedEmbedding(_TokenEmbedding):
    """An embedding that reads one of the published files."""

    def __init__(
        self,
        pretrained_file_name: str,
        embedding_root: str | None,
        init_unknown_vec: Callable[..., NDArray],
        vocabulary: Vocabulary | None,
        **kwargs: Any,
    ) -> None:
        self._check_pretrained_file_names(pretrained_file_name)
        super().__init__(**kwargs)
        path = self._get_pretrained_file(embedding_root or _default_root(), pretrained_file_name)
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


@register
class GloVe(_PublishedEmbedding):
    """Vectors of Stanford's GloVe project, read from ``<embedding_root>/glove``.

    Parameters
    ----------
    pretrained_file_name : str
        One of ``get_pretrained_file_names('glove')``.
    embedding_root : str, optional
        ``$MXNET_HOME/embeddings`` (``~/.mxnet/embeddings``) by default.
    init_unknown_vec : callable
        ``init_unknown_vec(shape=)`` returns the unknown token's vector.
    vocabulary : Vocabulary, optional
        Keep the vectors of its tokens only.
    **kwargs
        Arguments of `Vocabulary`.

    Raises
    ------
    KeyError
        For an unknown name.
    FileNotFoundError
        If neither the file nor its archive exists; the message names both.

    Notes
    -----
    Matches ``mxnet.contrib.text.embedding.GloVe``; nothing is downloaded.
    """

    pretrained_archive_name_sha1: ClassVar[dict[str, str]] = _PUBLISHED["GloVe"]["archives"]
    pretrained_file_name_sha1: ClassVar[dict[str, str]] = _PUBLISHED["GloVe"]["files"]

    def __init__(
        self,
        pretrained_file_name: str = "glove.840B.300d.txt",
        embedding_root: str | None = None,
        init_unknown_vec: Callable[..., NDArray] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, **kwargs
        )

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        # For example, glove.6B.50d.txt is in glove.6B.zip: the second word selects the archive.
        corpus = pretrained_file_name.split(".")[1]
        return next(
            name for name in cls.pretrained_archive_name_sha1 if name.split(".")[1] == corpus
        )


@register
class FastText(_PublishedEmbedding):
    """Vectors of fastText, read from ``<embedding_root>/fasttext``.

    Parameters
    ----------
    pretrained_file_name : str
        One of ``get_pretrained_file_names('fasttext')``.
    embedding_root, init_unknown_vec, vocabulary, **kwargs
        As in `GloVe`.

    Raises
    ------
    KeyError, FileNotFoundError
        As in `GloVe`.

    Notes
    -----
    Matches ``mxnet.contrib.text.embedding.FastText``; nothing is downloaded.
    """

    pretrained_archive_name_sha1: ClassVar[dict[str, str]] = _PUBLISHED["FastText"]["archives"]
    pretrained_file_name_sha1: ClassVar[dict[str, str]] = _PUBLISHED["FastText"]["files"]

    def __init__(
        self,
        pretrained_file_name: str = "wiki.simple.vec",
        embedding_root: str | None = None,
        init_unknown_vec: Callable[..., NDArray] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, **kwargs
        )

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        return os.path.splitext(pretrained_file_name)[0] + ".zip"


class CustomEmbedding(_TokenEmbedding):
    """Vectors from a text file; each line has a token and its vector.

    Parameters
    ----------
    pretrained_file_path : str
    elem_delim : str
        Delimiter between the token and the numbers.
    encoding : str
    init_unknown_vec : callable
        ``init_unknown_vec(shape=)`` returns the unknown token's vector if the file has none.
    vocabulary : Vocabulary, optional
        Keep the vectors of its tokens only.
    **kwargs
        Arguments of `Vocabulary`.

    Raises
    ------
    ValueError
        If the file does not exist, or a line has another length; the message names the line.
    """

    def __init__(
        self,
        pretrained_file_path: str,
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Callable[..., NDArray] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """Vectors of several embeddings, concatenated, for the tokens of a vocabulary.

    Parameters
    ----------
    vocabulary : Vocabulary
    token_embeddings : embedding or list of embeddings

    Raises
    ------
    ValueError
        For arguments of other types.
    """

    def __init__(self, vocabulary: Vocabulary, token_embeddings: Any) -> None:
        check_vocabulary("CompositeEmbedding", vocabulary)
        parts = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for part in parts:
            if not isinstance(part, _TokenEmbedding):
                raise TextError(
                    "CompositeEmbedding: token_embeddings must be token embeddings, got "
                    f"{type(part).__name__}"
                )
        self._index_tokens_from_vocabulary(vocabulary)
        self._set_idx_to_vec_by_embeddings(parts, len(self), self.idx_to_token)
