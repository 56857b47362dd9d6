"""``import horovod.mxnet`` gives mxlite.horovod: see :mod:`mxlite.compat`."""

from mxlite.compat.shim import take_over

take_over(__name__, __file__)
