"""Makes ``import horovod`` work in child processes: mxlite's, or an installed horovod."""

import sys
from importlib import import_module

from mxlite.compat import install

install()
del sys.modules["horovod"]
# The finder is installed now, so this import replaces the present module.
import_module("horovod")
