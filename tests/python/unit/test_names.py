"""Names for interactive users: signatures of operators, ``dir`` of modules."""

from __future__ import annotations

import inspect
import sys

import mxlite as mx
import pytest
from mxlite import _core
from processes import run_python

OPERATORS = sorted(op["name"] for op in _core.list_ops())


@pytest.mark.parametrize("name", OPERATORS)
def test_signatures_name_inputs_and_parameters(name):
    op = _core.describe_op(name)
    signature = inspect.signature(_core.op(name))
    expected = [*op["inputs"], *(p["name"] for p in op["params"])]
    assert [p for p in signature.parameters if p not in ("out", "name", "attr")] == expected
    for p in op["params"]:
        has_default = signature.parameters[p["name"]].default is not inspect.Parameter.empty
        assert has_default is not p["required"], p["name"]
    composed = inspect.signature(mx.sym._internal.__dict__[name])
    assert [p for p in composed.parameters if p not in ("out", "name", "attr")] == expected


def test_signature_of_softmax():
    parameters = inspect.signature(mx.nd.softmax).parameters
    assert parameters["axis"].default == -1 and parameters["temperature"].default is None
    assert parameters["data"].default is inspect.Parameter.empty
    assert parameters["length"].default is None
    assert "data" not in inspect.signature(mx.nd.ones(2).softmax).parameters
    assert inspect.signature(mx.sym.softmax).return_annotation == "Symbol | NDArray"
    assert inspect.signature(mx.nd.random_uniform).return_annotation == "NDArray"
    assert inspect.signature(mx.sym.random_uniform).return_annotation == "Symbol"


def test_signature_knows_which_inputs_must_be_given():
    parameters = inspect.signature(mx.nd.FullyConnected).parameters
    assert parameters["weight"].default is inspect.Parameter.empty
    assert parameters["bias"].default is None
    with pytest.raises(TypeError, match="missing required input 'weight'"):
        mx.nd.FullyConnected(mx.nd.ones((1, 2)), num_hidden=1, no_bias=True)


MODULES = [
    "mxlite", "mxlite.ndarray", "mxlite.symbol", "mxlite.gluon", "mxlite.gluon.nn", "mxlite.io",
    "mxlite.gluon.data", "mxlite.module", "mxlite.metric", "mxlite.autograd", "mxlite.random",
    "mxlite.ndarray.sparse", "mxlite.kvstore", "mxlite.optimizer", "mxlite.profiler",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_dir_shows_public_names_only(name):
    __import__(name)
    shown = [n for n in dir(sys.modules[name]) if not n.startswith("__")]
    assert not {n for n in shown if n.startswith("_")}
    assert not {"annotations", "Any", "Callable", "TYPE_CHECKING", "os", "sys", "math"} & set(shown)
    for entry in shown:
        getattr(sys.modules[name], entry)


def test_dir_of_the_package():
    shown = dir(mx)
    assert {"nd", "sym", "gluon", "cpu", "test_utils", "NDArray", "__version__"} <= set(shown)
    assert not {"feed_forward_data", "custom_sparse", "numpy_mode", "python_op"} & set(shown)
    assert {"softmax", "zeros", "random", "contrib"} <= set(dir(mx.nd))
    assert "control_flow" not in dir(mx.nd)


def test_star_import_gives_what_dir_shows():
    code = (
        "from mxlite import *\n"
        "import mxlite\n"
        "names = {n for n in dir(mxlite) if not n.startswith('_')}\n"
        "assert names <= set(globals()), names - set(globals())\n"
        "assert 'annotations' not in globals()\n"
    )
    run_python("-c", code)
