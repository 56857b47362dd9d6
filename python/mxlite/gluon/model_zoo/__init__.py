"""Ready-made networks (MXNet 1.x: ``mxnet.gluon.model_zoo``)."""

from . import model_store, vision
from .vision import get_model

__all__ = ["get_model", "model_store", "vision"]
