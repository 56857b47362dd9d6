"""Makes ``import mxnet`` work in child processes, whose PYTHONPATH has this folder."""

import sys
from importlib import import_module

from mxlite.compat import install

install()
del sys.modules["mxnet"]
# install() has added the finder of the import alias, so this import puts another module in the
# place of the one that is being imported.
import_module("mxnet")
