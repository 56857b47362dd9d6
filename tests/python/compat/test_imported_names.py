"""Names and modules under 1.x's paths: imported names, mxlite.modules_1x, older pickles."""

from __future__ import annotations

import importlib
import json
import pickle
from pathlib import Path

import mxlite as mx
import pytest
from alias_runner import run_code
from mxlite import _names_1x


def test_files_import_what_modules_import_from_one_another(tmp_path):
    printed = run_code(
        """
        from mxnet.metric import ndarray, registry
        from mxnet.gluon.block import NDArray, Parameter, Symbol, initializer
        from mxnet.gluon.nn.basic_layers import sym
        from mxnet.gluon.model_zoo.vision.resnet import cpu
        from mxnet.io.io import CSRNDArray, array
        from mxnet.model import Context, Uniform
        from mxnet.module.base_module import BatchEndParam, DataDesc, _as_list
        from mxnet.rnn import DataIter, load_checkpoint
        import mxnet as mx

        print(ndarray is mx.nd, registry is mx.registry, sym is mx.sym, initializer is mx.init)
        print(NDArray is mx.nd.NDArray, Symbol is mx.sym.Symbol, Parameter is mx.gluon.Parameter)
        print(cpu is mx.cpu, CSRNDArray is mx.nd.sparse.CSRNDArray, array is mx.nd.array)
        print(Context is mx.Context, Uniform is mx.init.Uniform, DataDesc is mx.io.DataDesc)
        print(BatchEndParam is mx.model.BatchEndParam, _as_list is mx.base._as_list)
        print(DataIter is mx.io.DataIter, load_checkpoint is mx.model.load_checkpoint)
        """,
        tmp_path,
    )
    assert set(printed.split()) == {"True"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nothing_like_this", _names_1x.UnknownNameError),
        ("check_call", _names_1x.UnknownNameError),  # 1.9.1 has it there, mxlite nowhere
    ],
)
@pytest.mark.usefixtures("alias")  # adds the names to mx.recordio
def test_what_is_nowhere_in_mxlite_stays_an_error(name, kind):
    with pytest.raises(kind, match=name):
        getattr(mx.recordio, name)
    assert not hasattr(mx.recordio, name)


def test_the_list_names_modules_of_the_list_of_names():
    folder = Path(mx.__file__).parent / "_names_1x"
    imports = json.loads((folder / "imports_1_9_1.json").read_text())
    assert {name.partition(".")[2] for name in imports} <= set(_names_1x.module_paths())
    homes = {target.partition(":")[0] for names in imports.values() for target in names.values()}
    assert all(home.startswith("mxnet.") for home in homes)


MODULES = [
    "engine", "error", "executor_manager", "libinfo", "library", "log", "misc", "model", "rnn",
    "rnn.rnn_cell", "rnn.io", "feed_forward",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_one_object_under_both_names(name):
    module = importlib.import_module(f"mxlite.{name}")
    assert module is importlib.import_module(f"mxlite.modules_1x.{name}")
    top = name.partition(".")[0]
    assert getattr(mx, top) is importlib.import_module(f"mxlite.{top}")


def test_device_is_context():
    assert importlib.import_module("mxlite.device") is mx.context is mx.device
    assert mx.device.Device is mx.Context and mx.device.current_device() == mx.current_context()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("mxlite.feed_forward FeedForward", mx.model.FeedForward),
        ("mxlite.rnn.cells LSTMCell", mx.rnn.LSTMCell),
        ("mxlite.misc FactorScheduler", mx.misc.FactorScheduler),
        ("mxlite.device Device", mx.Context),
    ],
)
def test_pickles_find_classes_by_their_older_paths(path, expected):
    module, name = path.split()
    assert pickle.loads(f"c{module}\n{name}\n.".encode()) is expected


def test_import_statements_of_scripts(tmp_path):
    printed = run_code(
        """
        import mxlite.rnn.rnn_cell
        import mxlite.misc
        import mxnet.model
        from mxlite.rnn import LSTMCell
        from mxnet.rnn.rnn_cell import LSTMCell as same
        from mxnet.operator import NumpyOp
        from mxnet.base import mx_real_t, string_types
        from mxlite.operator.python_op import NumpyOp as ours

        print(mxlite.rnn.rnn_cell.LSTMCell is LSTMCell is same, NumpyOp is ours)
        print(mxnet.model is mxlite.model is mxlite.modules_1x.model)
        """,
        tmp_path,
    )
    assert printed.split() == ["True"] * 3
