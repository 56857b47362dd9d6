"""Makes ``import horovod`` in child processes find mxlite's module or an installed horovod."""

import sys
from importlib import import_module

from mxlite.compat import install

install()
del sys.modules["horovod"]
# install() has added the finder of the import alias, so this import puts another module in the
# place of the one that is being imported.
import_module("horovod")
