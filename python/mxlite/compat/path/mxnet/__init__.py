"""Makes ``import mxnet`` work in child processes, whose PYTHONPATH has this folder."""

import sys
from importlib import import_module

from mxlite.compat import install

install()
del sys.modules["mxnet"]
# install() has added mxlite's finder, so this import puts its `mxnet` into sys.modules. The import
# that runs this file then returns that module.
import_module("mxnet")
