"""The import alias in the process of the tests, removed again after each test that asks for it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from mxlite import _names_1x, compat
from mxlite.compat import hooks


@pytest.fixture
def alias(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Install the alias; afterwards restore paths, finders and the names that it added.

    Tests that run later would otherwise pass only because the alias was installed.
    """
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(np, "fromstring", np.fromstring)
    numpy_names, after_import = set(vars(np)), list(_names_1x.AFTER_IMPORT)
    functions: list[Any] = []  # what the alias gives modules as __getattr__ and __dir__

    def remembered(module_name: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
        pair = _names_1x.attributes(module_name)
        functions.extend(pair)
        return pair

    monkeypatch.setattr(hooks, "attributes", remembered)
    compat.install()
    yield importlib.import_module("mxnet")
    _names_1x.AFTER_IMPORT[:] = after_import
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("mxnet", "horovod"):
            del sys.modules[name]
        if name.split(".")[0] == "mxlite":
            for attribute in ("__getattr__", "__dir__"):
                if any(vars(module).get(attribute) is function for function in functions):
                    delattr(module, attribute)
    for name in set(vars(np)) - numpy_names:
        if not isinstance(vars(np)[name], ModuleType):
            delattr(np, name)
