"""Files of symbols: the layout of 1.9.1, old files, damaged ones; checkpoints; tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.base import MXNetError

sym = mx.sym

# Written by MXNet 1.9.1 for small_net().
DATA = Path(__file__).resolve().parents[2] / "data"
WRITTEN_BY_1_9_1 = (DATA / "small_net-symbol.json").read_text()


def small_net() -> Any:
    data = sym.var("data", shape=(0, 3, 8, 8), lr_mult=2)
    net = sym.Convolution(data, kernel=(3, 3), num_filter=4, no_bias=True, name="conv")
    net = sym.BatchNorm(net, fix_gamma=False, name="bn")
    return sym.elemwise_add(
        sym._internal._MulScalar(net, scalar=2.0, name="twice"), net, name="sum"
    )


def test_files_are_those_of_1_9_1(tmp_path: Path) -> None:
    net = small_net()
    assert net.tojson() == WRITTEN_BY_1_9_1
    assert sym.load_json(WRITTEN_BY_1_9_1).tojson() == WRITTEN_BY_1_9_1
    text = sym.reset_arrays(sym.var("a"), num_arrays=1).tojson()
    assert text.startswith('{\n  "nodes": [\n\n  ], \n  "arg_nodes": [], ')
    net.save(tmp_path / "net-symbol.json")
    again = sym.load(tmp_path / "net-symbol.json")
    shapes, _, _ = net.infer_shape(data=(2, 3, 8, 8))
    rng = np.random.default_rng(0)
    args = {n: mx.nd.array(rng.normal(size=s)) for n, s in zip(net.list_arguments(), shapes)}
    states = {name: mx.nd.ones(4) for name in net.list_auxiliary_states()}
    outputs = [s.bind(mx.cpu(), args, aux_states=states).forward()[0] for s in (net, again)]
    np.testing.assert_array_equal(*(out.asnumpy() for out in outputs))
    with pytest.raises(FileNotFoundError, match="nowhere.json"):
        sym.load("nowhere.json")
    for call in (sym.load, net.save):
        with pytest.raises(TypeError, match="file name"):
            call(3)


@pytest.mark.parametrize(
    ("symbol", "op", "attrs"),
    [
        (sym.concat(sym.var("a"), sym.var("b"), dim=1), "Concat", {"dim": "1", "num_args": "2"}),
        (sym.var("a") + 1, "_plus_scalar", {"scalar": "1"}),
        (2 ** sym.var("a"), "_rpower_scalar", {"scalar": "2"}),
        (sym.maximum(sym.var("a"), sym.var("b")), "_maximum", {}),
        (sym.var("a") > sym.var("b"), "_greater", {}),
        (sym.random.uniform(shape=(2,)), "_random_uniform",
         {"low": "0", "high": "1", "shape": "(2,)"}),
        (sym.linalg.potrf(sym.var("a")), "_linalg_potrf", {}),
        (sym.cast(sym.var("a"), dtype=np.float16), "Cast", {"dtype": "float16"}),
        (sym.slice(sym.var("a"), begin=(None, 1), end=(2, None)), "slice",
         {"begin": "(None, 1)", "end": "(2, None)"}),
        (sym.Pooling(sym.var("a"), global_pool=True, pool_type="avg"), "Pooling",
         {"global_pool": "True", "pool_type": "avg"}),
    ],
)  # fmt: skip
def test_operators_and_parameters_are_spelled_as_in_1_x(
    symbol: Any, op: str, attrs: dict[str, str]
) -> None:
    node = json.loads(symbol.tojson())["nodes"][-1]
    assert (node["op"], node.get("attrs", {})) == (op, attrs)
    again = sym.load_json(symbol.tojson())
    assert again.tojson() == symbol.tojson()


def test_amp_casts_are_left_out_unless_asked_for() -> None:
    net = sym.relu(sym.amp_cast(sym.var("x"), dtype="float16"), name="r")
    assert "amp_cast" not in net.tojson()
    assert "amp_cast" in net.tojson(remove_amp_cast=False)
    assert sym.load_json(net.tojson()).list_arguments() == ["x"]


# -- old files ------------------------------------------------------------------------------------

VERSION_0_8 = {
    "nodes": [
        {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1,
         "attr": {"ctx_group": "stage1", "lr_mult": "0.2"}},
        {"op": "null", "param": {}, "name": "fc_weight", "inputs": [], "backward_source_id": -1},
        {"op": "null", "param": {}, "name": "fc_bias", "inputs": [], "backward_source_id": -1},
        {"op": "FullyConnected", "param": {"no_bias": "False", "num_hidden": "8"}, "name": "fc",
         "inputs": [[0, 0], [1, 0], [2, 0]], "backward_source_id": -1,
         "attr": {"weight_lr_mult": "1.2"}},
        {"op": "null", "param": {}, "name": "bn_gamma", "inputs": [], "backward_source_id": -1},
        {"op": "null", "param": {}, "name": "bn_beta", "inputs": [], "backward_source_id": -1},
        {"op": "BatchNorm", "param": {"eps": "0.001"}, "name": "bn",
         "inputs": [[3, 0], [4, 0], [5, 0]], "backward_source_id": -1},
        {"op": "argmax", "param": {"axis": "-1"}, "name": "best", "inputs": [[6, 0]],
         "backward_source_id": -1},
        {"op": "null", "param": {}, "name": "softmax_label", "inputs": [],
         "backward_source_id": -1},
        {"op": "Softmax", "param": {"grad_scale": "1"}, "name": "softmax",
         "inputs": [[6, 0], [8, 0]], "backward_source_id": -1},
    ],
    "arg_nodes": [0, 1, 2, 4, 5, 8],
    "heads": [[9, 0], [7, 0]],
}  # fmt: skip


def test_a_file_of_0_8_gets_its_missing_variables_and_attributes() -> None:
    net = sym.load_json(json.dumps(VERSION_0_8))
    assert net.list_outputs() == ["softmax_output", "best_output"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    attrs = net.attr_dict()
    assert attrs["data"]["__ctx_group__"] == "stage1"
    assert attrs["data"]["__lr_mult__"] == "0.2"
    assert attrs["fc_weight"]["__lr_mult__"] == "1.2"
    assert attrs["fc"] == {"no_bias": "False", "num_hidden": "8"}
    assert attrs["bn_moving_var"]["__init__"] == '["one", {}]'
    assert "axis" not in attrs.get("best", {})
    assert '"SoftmaxOutput"' in net.tojson()
    assert net.infer_shape(data=(4, 5))[1][0] == (4, 8)


def test_a_file_of_0_11_calls_attributes_attr() -> None:
    graph = {
        "nodes": [
            {"op": "null", "name": "data", "inputs": [], "attr": {"__shape__": "(2, 3)"}},
            {"op": "null", "name": "w", "inputs": []},
            {"op": "FullyConnected", "name": "fc", "inputs": [[0, 0, 0], [1, 0, 0]],
             "attr": {"num_hidden": "4", "no_bias": "True"}},
        ],
        "arg_nodes": [0, 1],
        "heads": [[2, 0, 0]],
        "attrs": {"mxnet_version": ["int", 1100]},
    }  # fmt: skip
    assert sym.load_json(json.dumps(graph)).infer_shape()[0] == [(2, 3), (4, 3)]


# -- damaged files --------------------------------------------------------------------------------


def broken(change: Any) -> str:
    graph = json.loads(WRITTEN_BY_1_9_1)
    change(graph)
    return json.dumps(graph)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "must be valid JSON"),
        ("\xe9", "must be valid JSON"),
        ("[1, 2]", "no list 'nodes'"),
        (broken(lambda g: g["nodes"][2].update(op="Convolutoin")),
         "node 'conv': unknown operator 'Convolutoin'.*Convolution"),
        (broken(lambda g: g["nodes"][2]["attrs"].update(kernle="(1, 1)")), "node 'conv'.*kernle"),
        (broken(lambda g: g["nodes"][2]["attrs"].update(kernel="(1, x)")), "node 'conv'.*kernel"),
    ],
)  # fmt: skip
def test_a_damaged_file_says_where(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad-symbol.json"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        sym.load(path)
    assert isinstance(caught.value, MXNetError)
    assert "bad-symbol.json" in str(caught.value)


# -- checkpoints ----------------------------------------------------------------------------------


def test_checkpoints(tmp_path: Path) -> None:
    prefix = str(tmp_path / "net")
    args = {"conv_weight": mx.nd.ones((4, 3, 3, 3)), "bn_gamma": mx.nd.ones(4)}
    states = {"bn_moving_mean": mx.nd.zeros(4)}
    mx.model.save_checkpoint(prefix, 7, small_net(), args, states)
    assert (tmp_path / "net-0007.params").exists()
    net, loaded, loaded_states = mx.model.load_checkpoint(prefix, 7)
    assert net.tojson() == WRITTEN_BY_1_9_1
    assert set(loaded) == set(args)
    assert set(loaded_states) == set(states)
    assert (loaded["conv_weight"].asnumpy() == 1).all()
    mx.nd.save(f"{prefix}-0008.params", {"weight": mx.nd.ones(1)})
    with pytest.raises(ValueError, match="names must have .*got 'weight'"):
        mx.model.load_params(prefix, 8)


# -- tables and drawings --------------------------------------------------------------------------


def test_print_summary(capsys: Any) -> None:
    net = sym.FullyConnected(sym.flatten(small_net(), name="flat"), num_hidden=10, name="fc")
    mx.viz.print_summary(net, shape={"data": (1, 3, 8, 8)})
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[1].split()) == "Layer (type) Output Shape Param # Previous Layer"
    rows = {line.split("(")[0]: line.split()[1:] for line in lines if "(" in line[:40]}
    assert rows["data"] == ["3x8x8", "0"]
    assert rows["conv"] == ["4x6x6", "108", "data"]
    assert rows["bn"] == ["4x6x6", "8", "conv"]
    assert rows["fc"] == ["10", "1450", "flat"]
    assert "Total params: 1566" in lines
    with pytest.raises(ValueError, match="incomplete"):
        mx.viz.print_summary(net, shape={})
    with pytest.raises(TypeError, match="must be a Symbol"):
        mx.viz.print_summary(3)


def test_drawing_without_graphviz_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        mx.viz.plot_network(small_net())


class Drawing:
    """Stands for graphviz.Digraph: notes what is drawn."""

    def __init__(self, **options: Any) -> None:
        self.nodes: dict[str, dict[str, str]] = {}
        self.edges: list[tuple[str, str, str | None]] = []

    def node(self, name: str, label: str, **style: str) -> None:
        self.nodes[name] = {"label": label, **style}

    def edge(self, tail_name: str, head_name: str, **style: str) -> None:
        self.edges.append((tail_name, head_name, style.get("label")))


def test_plot_network_draws_layers_and_shapes(monkeypatch: Any) -> None:
    module = type("graphviz", (), {"Digraph": Drawing})
    monkeypatch.setitem(__import__("sys").modules, "graphviz", module)
    drawing = mx.viz.plot_network(small_net(), shape={"data": (1, 3, 8, 8)})
    assert list(drawing.nodes) == ["data", "conv", "bn", "twice", "sum"]
    assert drawing.nodes["conv"]["label"] == "Convolution\n3x3/1, 4"
    assert ("conv", "data", "3x8x8") in drawing.edges
    whole = mx.viz.plot_network(small_net(), hide_weights=False)
    assert "conv_weight" in whole.nodes
