"""Names and modules under 1.x's paths: imported names, mxlite.modules_1x, pickles."""

from __future__ import annotations

import base64
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


# 1.9.1 has MXCallbackList in `operator`, mxlite has it nowhere.
@pytest.mark.parametrize(
    ("module", "name"), [("recordio", "nothing_like_this"), ("operator", "MXCallbackList")]
)
@pytest.mark.usefixtures("alias")  # adds the names to the modules
def test_what_is_nowhere_in_mxlite_stays_an_error(module, name):
    with pytest.raises(_names_1x.UnknownNameError, match=name):
        getattr(getattr(mx, module), name)
    assert not hasattr(getattr(mx, module), name)


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


# Base64 of what pickle.dumps gave: csr [[0, 0, 1], [2, 0, 0]], row_sparse with row 1 = [1, 2] of 3,
# cpu(3), gpu(1).
PICKLES = {
    "csr": (
        "gASV3QAAAAAAAACMFG14bmV0Lm5kYXJyYXkuc3BhcnNllIwKQ1NSTkRBcnJheZSTlE6FlFKUfZSMBmhhbmRs"
        "ZZSMCGJ1aWx0aW5zlIwJYnl0ZWFycmF5lJOUQ4TJ+pP5AgAAAAEAAAACAAAAAAAAAAIAAAACAAAAAAAAAAMA"
        "AAAAAAAAAQAAAAAAAAAAAAAABgAAAAEAAAADAAAAAAAAAAYAAAABAAAAAgAAAAAAAAAAAIA/AAAAQAAAAAAA"
        "AAAAAQAAAAAAAAACAAAAAAAAAAIAAAAAAAAAAAAAAAAAAACUhZRSlHNiLg=="
    ),
    "csr, protocol 2": (
        "gAJjbXhuZXQubmRhcnJheS5zcGFyc2UKQ1NSTkRBcnJheQpxAE6FcQFScQJ9cQNYBgAAAGhhbmRsZXEEY19f"
        "YnVpbHRpbl9fCmJ5dGVhcnJheQpxBWNfY29kZWNzCmVuY29kZQpxBliJAAAAw4nDusKTw7kCAAAAAQAAAAIA"
        "AAAAAAAAAgAAAAIAAAAAAAAAAwAAAAAAAAABAAAAAAAAAAAAAAAGAAAAAQAAAAMAAAAAAAAABgAAAAEAAAAC"
        "AAAAAAAAAAAAwoA/AAAAQAAAAAAAAAAAAQAAAAAAAAACAAAAAAAAAAIAAAAAAAAAAAAAAAAAAABxB1gGAAAA"
        "bGF0aW4xcQiGcQlScQqFcQtScQxzYi4="
    ),
    "row_sparse": (
        "gASVuwAAAAAAAACMFG14bmV0Lm5kYXJyYXkuc3BhcnNllIwQUm93U3BhcnNlTkRBcnJheZSTlE6FlFKUfZSM"
        "BmhhbmRsZZSMCGJ1aWx0aW5zlIwJYnl0ZWFycmF5lJOUQ1zJ+pP5AQAAAAIAAAABAAAAAAAAAAIAAAAAAAAA"
        "AgAAAAMAAAAAAAAAAgAAAAAAAAABAAAAAAAAAAAAAAAGAAAAAQAAAAEAAAAAAAAAAACAPwAAAEABAAAAAAAA"
        "AJSFlFKUc2Iu"
    ),
    "context": (
        "gASVUQAAAAAAAACMDW14bmV0LmNvbnRleHSUjAdDb250ZXh0lJOUKYGUfZQojA1kZXZpY2VfdHlwZWlklEsB"
        "jAlkZXZpY2VfaWSUSwOMCF9vbGRfY3R4lE51Yi4="
    ),
    "context, protocol 2": (
        "gAJjbXhuZXQuY29udGV4dApDb250ZXh0CnEAKYFxAX1xAihYDQAAAGRldmljZV90eXBlaWRxA0sBWAkAAABk"
        "ZXZpY2VfaWRxBEsDWAgAAABfb2xkX2N0eHEFTnViLg=="
    ),
    "gpu": (
        "gAJjbXhuZXQuY29udGV4dApDb250ZXh0CnEAKYFxAX1xAihYDQAAAGRldmljZV90eXBlaWRxA0sCWAkAAABk"
        "ZXZpY2VfaWRxBEsBWAgAAABfb2xkX2N0eHEFTnViLg=="
    ),
}


def state_of_symbol(text):
    """Pickle as symbols of 1.9.1 do: a call, and a dictionary with the JSON text."""
    head = b"\x80\x02cmxnet.symbol.symbol\nSymbol\nN\x85R}X\x06\x00\x00\x00handleX"
    return head + len(text).to_bytes(4, "little") + text.encode() + b"sb."


def test_pickles_of_mxnet_load(tmp_path):
    nodes = [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "_plus_scalar", "name": "y", "attrs": {"scalar": "2"}, "inputs": [[0, 0, 0]]},
    ]
    graph = {"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {}}
    symbol = base64.b64encode(state_of_symbol(json.dumps(graph))).decode()
    pickles = {**PICKLES, "symbol": symbol}
    text = run_code(
        f"""
        import base64, pickle

        import mxnet as mx

        for name, blob in {pickles!r}.items():
            value = pickle.loads(base64.b64decode(blob))
            if isinstance(value, mx.sym.Symbol):
                found = value.bind(mx.cpu(), {{"x": mx.nd.ones(1)}}).forward()[0]
                print(name, value.list_outputs(), found.asnumpy().tolist())
            elif isinstance(value, mx.nd.NDArray):
                numbers = value.asnumpy().tolist()
                print(name, value.stype, value.shape, numbers, value.dtype.__name__)
                value.check_format()
                again = pickle.loads(pickle.dumps(value))
                assert again.stype == value.stype
            else:
                print(name, value, value == pickle.loads(pickle.dumps(value)))
        """,
        tmp_path,
    )
    csr = "csr (2, 3) [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]] float32"
    assert text.splitlines() == [
        f"csr {csr}",
        f"csr, protocol 2 {csr}",
        "row_sparse row_sparse (3, 2) [[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]] float32",
        "context cpu(3) True",
        "context, protocol 2 cpu(3) True",
        "gpu gpu(1) True",
        "symbol ['y_output'] [3.0]",
    ]


def test_the_pool_of_multiprocessing_is_there(tmp_path):
    text = run_code(
        """
        import multiprocessing

        import mxnet as mx

        with multiprocessing.pool.ThreadPool(2) as pool:
            print(sum(pool.map(int, "12")))
        """,
        tmp_path,
    )
    assert text.strip() == "3"
