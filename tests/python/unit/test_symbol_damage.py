"""Damaged and hostile symbol files: every fault is found before a shape is inferred."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import mxlite as mx
import pytest
from mxlite.base import FileFormatError, MXNetError

DATA = Path(__file__).resolve().parents[2] / "data"
NET = (DATA / "small_net-symbol.json").read_text()
sym = mx.sym
MAX_DEPTH = 16  # levels of nested subgraphs


def changed(change: Any) -> str:
    graph = json.loads(NET)
    change(graph, graph["nodes"][2])  # node 2 is the convolution: data, weight
    return json.dumps(graph)


def nested(depth: int) -> str:
    graph: dict[str, Any] = {"nodes": [{"op": "null", "name": "x"}], "heads": [[0, 0, 0]]}
    for _ in range(depth):
        node = {"op": "_foreach", "name": "loop", "inputs": [], "subgraphs": [graph]}
        graph = {"nodes": [node], "heads": [[0, 0, 0]]}
    return json.dumps(graph)


def node(**values: Any) -> Any:
    return lambda g, n: n.update(values)


def graph(**values: Any) -> Any:
    return lambda g, n: g.update(values)


FIRST, SECOND = [0, 0, 0], [1, 0, 0]
FAULTS: list[tuple[str, Any]] = [
    (
        r"node 'conv': the number of inputs of Convolution must be 2 \(data, weight\), got 1",
        node(inputs=[FIRST]),
    ),
    ("Convolution must be 2 .*, got 3", node(inputs=[FIRST] * 3)),
    ("Convolution must be 2 .*, got 0", node(inputs=[])),
    (r"3 \(data, weight, bias\), got 2", lambda g, n: n["attrs"].pop("no_bias")),
    (
        "'conv'.*has input 2, which is not before it; a node from 0 to 1 can be named",
        node(inputs=[FIRST, [2, 0, 0]]),
    ),
    (
        "'data' .relu. has input 0, which is not before it; no node can be named",
        lambda g, n: g["nodes"][0].update(op="relu", inputs=[FIRST]),
    ),
    (
        "'conv'.*the output must be at most 2147483647, got 2147483648",
        node(inputs=[[0, 2**31, 0], SECOND]),
    ),
    ("'conv'.*-1", node(inputs=[[-1, 0, 0], SECOND])),
    ("list of integers", node(inputs=[["0", 0, 0], SECOND])),
    ("must be .node, output, version., got", node(inputs=[[0], SECOND])),
    (
        "has as input: output 3 of node 'data' .a variable., which has 1",
        node(inputs=[[0, 3, 0], SECOND]),
    ),
    ("damaged.*heads", lambda g, n: g.pop("heads")),
    ("damaged.*heads", graph(heads=[])),
    (
        r"head \[99, 0, 0\], which is no node of the file; a node from 0 to \d+ can be named",
        graph(heads=[[99, 0, 0]]),
    ),
    ("head .-1, 0, 0.", graph(heads=[[-1, 0, 0]])),
    ("output 7 of node", graph(heads=[[2, 7, 0]])),
    ("lists node 99", graph(arg_nodes=[0, 99])),
    ("no variable", graph(arg_nodes=[2])),
    ("a variable must have 0 inputs, got 1", lambda g, n: g["nodes"][1].update(inputs=[FIRST])),
    ("must map names", node(attrs=["a"])),
    ("must map names to texts", lambda g, n: n["attrs"].update(kernel=[1, 1])),
    ("without op and name", lambda g, n: g["nodes"].append("x")),
    ("must be texts", node(name=7)),
    ("mxnet_version", lambda g, n: g["attrs"].update(mxnet_version=["int", "x"])),
    ("'_pick_backward' is internal", node(op="_pick_backward")),
    ("must have 1 subgraphs, got 0", node(op="_foreach", attrs={})),
    (
        "num_outputs must be from 1 to 65536, got '2147483647'",
        node(op="SliceChannel", inputs=[FIRST], attrs={"num_outputs": "2147483647"}),
    ),
    (f"deeper than {MAX_DEPTH}", nested(MAX_DEPTH + 2)),
    ("JSON must be nested at most 80 levels deep", "[" * 100_000),
]


@pytest.mark.parametrize(("words", "change"), FAULTS, ids=range(len(FAULTS)))
def test_a_damaged_graph_names_its_fault(tmp_path: Path, words: str, change: Any) -> None:
    path = tmp_path / "bad-symbol.json"
    path.write_text(change if isinstance(change, str) else changed(change))
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        sym.load(path)
    assert isinstance(caught.value, MXNetError)
    assert "bad-symbol.json" in str(caught.value)


def test_a_shape_that_overflows_is_found_when_it_is_inferred() -> None:
    change = node(op="Reshape", attrs={"shape": "(2305843009213693953, 8)"}, inputs=[FIRST])
    with pytest.raises(MXNetError):
        sym.load_json(changed(change)).infer_shape(data=(2, 3, 8, 8))


def _cond_file(depth: int) -> str:
    """A condition whose graph has 2 ** depth paths."""
    nodes: list[Any] = [{"op": "null", "name": "p", "inputs": []}]
    for i in range(depth):
        nodes.append({"op": "elemwise_add", "name": f"a{i}", "inputs": [[i, 0, 0], [i, 0, 0]]})
    condition = {"nodes": nodes, "arg_nodes": [0], "heads": [[depth, 0, 0]]}
    branch = {"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[0, 0, 0]]}
    cond = {
        "op": "_cond", "name": "c", "inputs": [[0, 0, 0]],
        "attrs": {"cond_input_locs": "[0]", "then_input_locs": "[0]", "else_input_locs": "[0]",
                  "num_args": "4", "num_outputs": "1"},
        "subgraphs": [condition, branch, branch],
    }  # fmt: skip
    top = {"nodes": [nodes[0], cond], "arg_nodes": [0], "heads": [[1, 0, 0]]}
    return json.dumps({**top, "attrs": {"mxnet_version": ["int", 10901]}})


@pytest.mark.parametrize("depth", [60, 3000])
def test_conditions_of_many_paths_load(depth: int) -> None:
    assert sym.load_json(_cond_file(depth)).list_arguments() == ["p"]


LOOP_FAULTS = [
    ("in_data_locs", "[5]", "in_data_locs must contain positions from -1 to 1, got 5"),
    ("in_data_locs", "[]", "must have one position per input, 2, got 1"),
    ("in_data_locs", "[-1]", "the variable 'foreach.*_arg0' of a subgraph gets no input"),
    ("in_state_locs", "[-7]", "in_state_locs must contain positions .*, got -7"),
    ("in_state_locs", "[0]", "the variable 'foreach.*_arg0' of a subgraph gets two inputs"),
    ("in_data_locs", "[x]", "in_data_locs must hold integers, got 'x'"),
    ("in_data_locs", "[9999999999999999999999]", "must hold integers"),
    ("remain_locs", "[0, 0, 0]", "must have one position per input, 2, got 5"),
    ("remain_locs", None, "the attribute remain_locs is missing"),
]


@pytest.mark.parametrize(("key", "value", "words"), LOOP_FAULTS)
def test_positions_of_loops_are_checked(key: str, value: str | None, words: str) -> None:
    def body(data: Any, state: Any) -> Any:
        return data + state, state

    out, _ = sym.contrib.foreach(body, sym.var("data"), sym.var("state"))
    graph = json.loads(out.tojson())
    (loop,) = [node for node in graph["nodes"] if node["op"] == "_foreach"]
    sym.load_json(json.dumps(graph))
    if value is None:
        del loop["attrs"][key]
    else:
        loop["attrs"][key] = value
    expected = "node '_foreach.*: the subgraphs of _foreach are damaged: .*" + words
    with pytest.raises(FileFormatError, match=expected):
        sym.load_json(json.dumps(graph))


BRANCH_FAULTS = [
    ("then_input_locs", "[7]", "then_input_locs must contain positions from 0 to 1, got 7"),
    ("then_input_locs", "[]", "the variable 'x' of a subgraph gets no input"),
    ("else_input_locs", "[0, 1, 1, 1]", "a subgraph must have at least 4 variables, got 2"),
]


@pytest.mark.parametrize(("key", "value", "words"), BRANCH_FAULTS)
def test_positions_of_branches_are_checked(key: str, value: str, words: str) -> None:
    x, y = sym.var("x"), sym.var("y")
    graph = json.loads(sym.contrib.cond(x < y, lambda: x + y, lambda: x * y).tojson())
    (branch,) = [node for node in graph["nodes"] if node["op"] == "_cond"]
    assert len(branch["inputs"]) == 3
    branch["inputs"].pop()
    with pytest.raises(FileFormatError, match="the subgraphs of _cond are damaged"):
        sym.load_json(json.dumps(graph))
    branch["attrs"].update(then_input_locs="[0, 1]", else_input_locs="[0, 1]")
    sym.load_json(json.dumps(graph))
    branch["attrs"][key] = value
    with pytest.raises(FileFormatError, match="the subgraphs of _cond are damaged: " + words):
        sym.load_json(json.dumps(graph))


WHILE_FAULTS = [
    ("func_var_locs", "[0, 0]", "num_out_data must be .*, 2 - 2, got 1"),
    ("func_var_locs", "[]", "func_var_locs must have 1 to 2 positions, got 0"),
    ("cond_input_locs", "[0]", "the variable 'limit' of a subgraph gets no input"),
    ("cond_input_locs", "[0, 2]", "cond_input_locs must contain positions from 0 to 1, got 2"),
    ("max_iterations", "0", "max_iterations must be at least 1, got 0"),
    ("num_outputs", "-9223372036854775808", "the body's outputs, 2, got -9223372036854775808"),
    ("num_out_data", "-1", "num_out_data must be at least 0, got -1"),
    ("num_out_data", "0", "num_out_data must be .*, 2 - 1, got 0"),
    ("num_out_data", None, "the attribute num_out_data is missing"),
]


@pytest.mark.parametrize(("key", "value", "words"), WHILE_FAULTS)
def test_positions_of_while_loops_are_checked(key: str, value: str | None, words: str) -> None:
    limit = sym.var("limit")
    out, _ = sym.contrib.while_loop(
        lambda i: i < limit, lambda i: (i * 2, [i + 1]), [sym.var("start")], max_iterations=4
    )
    graph = json.loads(out.tojson())
    (loop,) = [node for node in graph["nodes"] if node["op"] == "_while_loop"]
    sym.load_json(json.dumps(graph))
    if value is None:
        del loop["attrs"][key]
    else:
        loop["attrs"][key] = value
    expected = "the subgraphs of _while_loop are damaged: .*" + words
    with pytest.raises(FileFormatError, match=expected):
        sym.load_json(json.dumps(graph))


def test_branches_of_different_outputs_are_refused() -> None:
    x = sym.var("x")
    chosen = sym.contrib.cond(x, lambda: [x, x + 1], lambda: [x, x])
    graph = json.loads(sym.Group(chosen).tojson())
    (branch,) = [node for node in graph["nodes"] if node["op"] == "_cond"]
    branch["subgraphs"][2]["heads"].pop()
    with pytest.raises(FileFormatError, match="same number of outputs, got 2 and 1"):
        sym.load_json(json.dumps(graph))


def _mutated(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one place changed."""
    odd = [None, -1, 0, 1, 2**31, 2**70, 1.5, "", "x", [], {}, [[]], True]
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = rng.choice(sorted(value))
        result = dict(value)
        if rng.random() < 0.1:
            del result[key]
        else:
            result[key] = _mutated(value[key], rng)
        return result
    if isinstance(value, list) and value and rng.random() < 0.95:
        at = rng.randrange(len(value))
        action = rng.random()
        if action < 0.1:
            return value[:at] + value[at + 1 :]
        if action < 0.2:
            return value[:at] + [value[at]] + value[at:]
        return [*value[:at], _mutated(value[at], rng), *value[at + 1 :]]
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice([-1, 1, 2])
    return rng.choice(odd)


@pytest.mark.parametrize("name", ["small_net", "mxnet_1_9_1/loops"])
@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_load_or_raise_an_error_of_the_package(seed: int, name: str) -> None:
    rng = random.Random(seed)
    graph = json.loads((DATA / f"{name}-symbol.json").read_text())
    for _ in range(400):
        bad = graph
        for _ in range(rng.choice([1, 1, 2, 3])):
            bad = _mutated(bad, rng)
        with contextlib.suppress(MXNetError):
            symbol = sym.load_json(json.dumps(bad))
            sym.load_json(symbol.tojson())
            shape = (2, 3, 8, 8) if name == "small_net" else (3, 1, 2)
            symbol.infer_shape_partial(data=shape)
