"""Parameters: the names of ``mxnet.gluon.parameter``."""

from __future__ import annotations

from .parameter import *  # noqa: F403
from .parameter_dict import ParameterDict
