"""Modules of ``mxlite.modules_1x`` under 1.x's names and under the paths in older pickles."""

from __future__ import annotations

import importlib
import pickle

import mxlite as mx
import pytest
from alias_runner import run_code

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
