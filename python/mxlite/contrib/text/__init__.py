"""Vocabularies and embeddings of tokens (``mx.contrib.text``)."""

from __future__ import annotations

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
