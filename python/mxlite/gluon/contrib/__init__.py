"""Additions to Gluon (``mx.gluon.contrib``)."""

from __future__ import annotations

from . import cnn, data, nn, rnn

__all__ = ["cnn", "data", "nn", "rnn"]
