"""Helpers for tests of operators, layers and generators (MXNet 1.x: ``mxnet.test_utils``)."""

from __future__ import annotations

import sys as _sys

from .. import _surface
from .compare import *  # noqa: F403
from .consistency import *  # noqa: F403
from .data import *  # noqa: F403
from .files import *  # noqa: F403
from .process import *  # noqa: F403
from .sparse import *  # noqa: F403
from .statistics import *  # noqa: F403
from .symbolic import *  # noqa: F403
from .tolerance import *  # noqa: F403

_surface.guard(_sys.modules[__name__])
