"""Ready-made networks (MXNet 1.x: ``mxnet.gluon.model_zoo``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._names_1x import attributes as _attributes
from . import model_store, vision
from .vision import get_model

__all__ = ["get_model", "model_store", "vision"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
