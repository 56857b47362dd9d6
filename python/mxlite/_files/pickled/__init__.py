"""Reads pickles of other programs without Python's unpickler, so no code in a file is run.

`read_pickle` interprets the opcodes itself. Names of classes and functions are looked up in a
table that the caller gives; each entry checks its arguments and makes a plain value. A file
cannot set attributes, call methods or import modules.
"""

from .machine import read_pickle, read_pickle_at
from .numpy_values import numpy_maker, object_array_maker
from .plain_values import plain_maker
from .values import Maker, Makers, PickleContentError, Spender, Unfinished

__all__ = [
    "Maker",
    "Makers",
    "PickleContentError",
    "Spender",
    "Unfinished",
    "numpy_maker",
    "object_array_maker",
    "plain_maker",
    "read_pickle",
    "read_pickle_at",
]
