"""Modules of the folders of ``examples``, which the workers share (Python 3.8 and later)."""

import importlib
import os
import sys

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


def load_example(example, name):
    """Import a module of an example; the folder is in the path only during the import.

    Several folders have modules of the same name, such as ``networks`` here and in ``peers``.
    """
    folder = os.path.join(EXAMPLES, example)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)
