"""Makes ``import mxnet`` work in child processes, whose PYTHONPATH has this folder."""

import sys
from importlib import import_module

from mxlite.compat import install

install()
del sys.modules["mxnet"]
# The finder is installed now, so this import replaces the present module.
import_module("mxnet")
