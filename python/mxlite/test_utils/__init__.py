"""Helpers for tests of operators, layers and generators (MXNet 1.x: ``mxnet.test_utils``).

Test files begin with ``from mxnet.test_utils import *`` and then use ``mx``, ``np``, ``os``, ...,
so this module exports the same modules as that of 1.9.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import bz2
import errno
import gzip
import json
import logging
import numbers
import os
import platform
import struct
import sys
import time
import traceback
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

import mxlite as mx

from .._names_1x import attributes as _attributes
from ..context import Context, current_context
from ..ndarray import array
from ..runtime import Features
from ..symbol import Symbol
from ..util import get_cuda_compute_capability, getenv, setenv, use_np
from .compare import *  # noqa: F403
from .consistency import *  # noqa: F403
from .data import *  # noqa: F403
from .files import *  # noqa: F403
from .process import *  # noqa: F403
from .sparse import *  # noqa: F403
from .statistics import *  # noqa: F403
from .symbolic import *  # noqa: F403
from .tolerance import *  # noqa: F403

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
