"""``import mxnet`` gives mxlite: see :mod:`mxlite.compat`."""

from mxlite.compat.shim import take_over

take_over(__name__, __file__)
