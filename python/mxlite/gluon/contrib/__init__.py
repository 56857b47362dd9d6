"""Additions to Gluon (``mx.gluon.contrib``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._names_1x import attributes as _attributes

__all__ = ["cnn", "data", "nn", "parallel", "rnn"]

if TYPE_CHECKING:  # imported when they are first used
    from . import cnn, data, nn, parallel, rnn
    from . import estimator as estimator
else:
    __getattr__, __dir__ = _attributes(__name__)
