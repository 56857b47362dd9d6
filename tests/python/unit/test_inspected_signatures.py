"""`inspect.signature` reads the parameters of every public function, class and method."""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Iterator
from typing import Any

import mxlite as mx
import pytest
from mxlite import _core

NAMES = [
    *("nd", "nd.random", "nd.linalg", "nd.contrib", "nd.sparse", "sym", "sym.random", "gluon"),
    *("gluon.nn", "gluon.rnn", "gluon.loss", "gluon.data", "gluon.data.vision", "gluon.utils"),
    *("gluon.contrib.nn", "gluon.contrib.rnn", "autograd", "io", "kv", "image", "recordio"),
    *("metric", "optimizer", "init", "random", "lr_scheduler", "context", "module", "callback"),
    *("monitor", "profiler", "test_utils", "viz", "model", "rnn", "executor", "operator"),
]
MODULES = {"mx": mx, **{name: operator.attrgetter(name)(mx) for name in NAMES}}
SPECIAL = (
    "__init__ __call__ __getitem__ __setitem__ __len__ __iter__ __next__ __enter__ __exit__ "
    "__add__ __radd__ __iadd__ __pow__ __eq__ __lt__ __array__ __bool__ __float__ __repr__"
).split()


def _ours(value: Any) -> bool:
    return str(getattr(value, "__module__", None) or "mxlite").startswith("mxlite")


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name in dir(cls):
        if name.startswith("_") and name not in SPECIAL:
            continue
        owner = next((c for c in cls.__mro__ if name in vars(c)), None)
        if owner is None or not _ours(owner):  # Python's own, as str.count
            continue
        if isinstance(vars(owner)[name], types.WrapperDescriptorType):
            continue  # slots of native types, which Python describes
        value = getattr(cls, name)
        if callable(value) and not inspect.isclass(value):
            yield name, value


def _public(module: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        if not _ours(value) or inspect.isclass(value) and issubclass(value, BaseException):
            continue  # Python's exceptions have no signature, either
        yield name, value
        if inspect.isclass(value):
            yield from ((f"{name}.{method}", m) for method, m in _methods(value))


@pytest.mark.parametrize("module", MODULES)
def test_everything_public_has_a_signature(module):
    found = 0
    for name, value in _public(MODULES[module]):
        try:
            inspect.signature(value)
        except (ValueError, TypeError) as error:
            raise AssertionError(f"{module}.{name}: {error}") from None
        found += 1
    assert found > 0


def test_native_functions_of_the_extension_have_signatures():
    """Those that pybind11 binds; three internal methods of CachedGraph are written by hand."""
    checked = 0
    for name, value in vars(_core).items():
        if inspect.isclass(value) and not issubclass(value, BaseException):
            functions = dict(_methods(value))
        elif isinstance(value, types.BuiltinFunctionType):
            functions = {name: value}
        else:
            continue
        for inner, function in functions.items():
            if isinstance(function, types.MethodDescriptorType):
                continue
            assert inspect.signature(function) is not None, (name, inner)
            checked += 1
    assert checked > 200


def test_signatures_name_parameters_and_defaults():
    def parameters(function: Any) -> str:
        return str(inspect.signature(function))

    assert parameters(mx.Context) == "(device_type, device_id=0)"
    assert parameters(mx.Context.__exit__).startswith("(self, ")
    assert parameters(mx.nd.NDArray.asnumpy) == "(self)"
    assert parameters(mx.nd.NDArray.__add__) == "(self, other)"
    assert parameters(mx.nd.ones((2,)).__add__) == "(other)"
    assert parameters(mx.waitall) == "()"
    assert parameters(_core.Node).startswith("(op, name, attrs, inputs, call=None, origin=''")
    assert "Wait and copy into a NumPy array" in mx.nd.NDArray.asnumpy.__doc__


def test_help_of_operators_has_inputs_and_shapes():
    text = mx.nd.Convolution.__doc__
    begin = "Parameters\n----------\ndata, weight, bias : NDArray or Symbol\n    Shapes, inputs -> "
    assert begin in text and "\nkernel : int" in text
    assert "\n*data : NDArray or Symbol" in mx.nd.concat.__doc__
    assert "NDArray or Symbol" not in mx.nd.random_uniform.__doc__
