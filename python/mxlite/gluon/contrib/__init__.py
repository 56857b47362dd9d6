"""Additions to Gluon (``mx.gluon.contrib``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._names_1x import attributes as _attributes
from . import cnn, data, nn, rnn

__all__ = ["cnn", "data", "nn", "parallel", "rnn"]

if TYPE_CHECKING:
    from . import estimator as estimator  # imported on first use at run time
    from . import parallel as parallel
else:
    __getattr__, __dir__ = _attributes(__name__)
