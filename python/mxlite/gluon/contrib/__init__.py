"""Additions to Gluon (``mx.gluon.contrib``)."""

from __future__ import annotations

from . import cnn, nn, rnn

__all__ = ["cnn", "nn", "rnn"]
