"""Export of forwards that look at shapes: what `hybridize` runs can be written, or says why not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized, ready, sequential
from mxlite import gluon, nd
from mxlite.base import MXNetError, NotSupportedError
from mxlite.gluon import nn
from recording import recorded


def lambda_block(forward: Callable[..., Any], name: str = "net_") -> Any:
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, *args: Any) -> Any:  # noqa: N803
            return forward(F, *args)

    net = hybridized(Net(prefix=name))
    return net


def values(*shape: int) -> Any:
    return nd.array(np.random.default_rng(len(shape)).normal(size=shape))


def exported(net: Any, path: Path) -> Any:
    symbol_file, params_file = net.export(str(path / "net"))
    return gluon.SymbolBlock.imports(symbol_file, "data", params_file)


def checked(net: Any, path: Path, *inputs: Any) -> Any:
    """Run a network and return its exported form, which gives the same."""
    expected = net(*inputs)
    symbol_file, params_file = net.export(str(path / "net"))
    names = "data" if len(inputs) == 1 else [f"data{i}" for i in range(len(inputs))]
    block = gluon.SymbolBlock.imports(symbol_file, names, params_file)
    same(block(*inputs), expected)
    return block


def same(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), rtol=1e-6)


def ops_of(path: Path) -> list[str]:
    nodes = json.loads((path / "net-symbol.json").read_text())["nodes"]
    return [node["op"] for node in nodes if node["op"] != "null"]


def rows(F: Any, x: Any) -> Any:  # noqa: N803
    total = x[0] * 0
    for i, row in enumerate(x):
        total = total + row * (i + 1)
    return total


def counted(F: Any, x: Any) -> Any:  # noqa: N803
    total = F.sum(x) * 0
    for i in range(len(x)):
        total = total + F.sum(x) * (i + 1)
    return total


FORWARDS = {
    "shape": lambda F, x: x * x.shape[0] + x.shape[1],
    "slice": lambda F, x: x[:, 1:3] * 2,
    "reversed": lambda F, x: x[:, ::-1],
    "element": lambda F, x: x[1],
    "last column": lambda F, x: x[..., -1],
    "reshape": lambda F, x: x.reshape((x.shape[1], x.shape[0])),
    "rows": rows,
    "length": counted,
    "array": lambda F, x: F.broadcast_mul(x, nd.array([[1.0], [2.0], [3.0]])),
    "numbers": lambda F, x: F.take(x, nd.array([2, 0], dtype="int32")),
    "branch": lambda F, x: F.relu(x) if x.shape[0] == 3 else -x,
}


@pytest.mark.parametrize("kind", FORWARDS)
def test_what_hybridize_runs_is_written(kind: str, tmp_path: Path) -> None:
    net = lambda_block(FORWARDS[kind])
    block, x = checked(net, tmp_path, values(3, 4)), values(3, 4)
    assert float(block(x).abs().sum().asscalar()) > 0


def test_a_sum_that_broadcasts_is_written_as_it_ran(tmp_path: Path) -> None:
    checked(lambda_block(lambda F, x, e: x + e), tmp_path, values(2, 3), values(1, 3))
    assert ops_of(tmp_path) == ["broadcast_add"]


@pytest.mark.parametrize("shape", [(1, 4), (3, 4)])
def test_comparisons_that_broadcast_are_written_under_the_names_of_1x(
    shape: tuple[int, int], tmp_path: Path
) -> None:
    net = lambda_block(lambda F, x, y: (x > y) + F.abs(x) ** y + F.maximum(x, y))
    checked(net, tmp_path, values(3, 4), values(*shape))
    unnamed = {"_greater", "_power", "_maximum"} & set(ops_of(tmp_path))
    assert len(unnamed) == (0 if shape == (1, 4) else 3)


def test_new_arrays_are_written_with_dtypes_that_1x_reads(tmp_path: Path) -> None:
    def forward(F: Any, x: Any) -> Any:  # noqa: N803
        made = (F.zeros((1,)), F.ones((1,)), F.full((1,), 2), F.eye(1).reshape((1,)), F.arange(1))
        return x[0] + F.add_n(*made) + F.zeros((1,), dtype="float64").astype("float32")

    checked(lambda_block(forward), tmp_path, values(3, 4))
    nodes = json.loads((tmp_path / "net-symbol.json").read_text())["nodes"]
    dtypes = [node["attrs"].get("dtype", "float32") for node in nodes if "attrs" in node]
    assert "None" not in dtypes and "float64" in dtypes


def test_layers_around_shapes_keep_their_parameters(tmp_path: Path) -> None:
    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.body = nn.HybridSequential()
                self.body.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm())
                self.top = nn.Dense(2)

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            y = self.body(x)
            return self.top(y.reshape((y.shape[0], y.shape[1] * y.shape[2] * y.shape[3])))

    net = ready(Net(prefix="net_"), hybridize=True)
    x = values(2, 3, 8, 8)
    with mx.autograd.record():
        net(x)
    checked(net, tmp_path, x)
    saved = nd.load(str(tmp_path / "net-0000.params"))
    assert any(name.startswith("aux:") and name.endswith("running_mean") for name in saved)
    nodes = json.loads((tmp_path / "net-symbol.json").read_text())["nodes"]
    names = [node["name"] for node in nodes]
    assert len(set(names)) == len(names)
    assert any(re.fullmatch(r"net_dense0_fullyconnected0", name) for name in names), names


def test_a_network_that_takes_other_batches_keeps_taking_them(tmp_path: Path) -> None:
    net = lambda_block(lambda F, x: x[:, 1:3] * x.shape[1])
    net(values(2, 4))
    block = exported(net, tmp_path)
    x = values(5, 4)
    same(block(x), net(x))
    with pytest.raises(ValueError, match=r"input data must have shape \(0, 4\), .*, got \(5, 6\)"):
        block(values(5, 6))


def test_an_operator_of_any_number_of_inputs_is_composed(tmp_path: Path) -> None:
    """Whether a symbol is several inputs is not what ``len(x)`` of an array means."""

    net = lambda_block(lambda F, x: F.concat(x, x * 2, dim=1).reshape((0, -1, 3)))
    net(nd.ones((2, 6)))
    files = net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(files[0], "data")
    assert block(nd.ones((5, 6))).shape == (5, 4, 3)


@pytest.mark.parametrize(
    ("forward", "rows"),
    [
        (lambda F, x: x[0] + x[-1], 6),
        (lambda F, x: x * nd.array([x.shape[0]]).reshape((1, 1)), 2),
        (lambda F, x: x * 2 if x.shape[0] < 50 else -x, 64),
    ],
    ids=["element", "array", "branch"],
)
def test_other_batches_than_the_traced_one_are_refused(
    forward: Any, rows: int, tmp_path: Path
) -> None:
    block = checked(lambda_block(forward), tmp_path, values(3, 4))
    words = rf"input data must have shape \(3, 4\).*traced.*got \({rows}, 4\)"
    with pytest.raises(ValueError, match=words):
        block(values(rows, 4))


def test_networks_that_ask_for_no_shapes_are_written_as_before(tmp_path: Path) -> None:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(5, activation="tanh"), nn.Dense(3))
    net.initialize()
    net.hybridize()
    net(values(2, 4))
    block = exported(net, tmp_path)
    x = values(7, 4)
    same(block(x), net(x))
    assert ops_of(tmp_path) == ["FullyConnected", "Activation", "FullyConnected"]
    text = (tmp_path / "net-symbol.json").read_text()
    assert "net_dense0_tanh_fwd" in text and "traced_shape" not in text


def test_outputs_of_operators_stay_countable_when_composed(tmp_path: Path) -> None:
    def forward(F: Any, x: Any) -> Any:  # noqa: N803
        parts = F.split(x, num_outputs=2, axis=1)
        return parts[1] + parts[0] * len(parts)

    net = lambda_block(forward)
    net(values(2, 4))
    block = exported(net, tmp_path)
    x = values(5, 4)
    same(block(x), net(x))
    assert "traced_shape" not in (tmp_path / "net-symbol.json").read_text()


class LoopsAndBranches(gluon.HybridBlock):
    """A loop with a branch inside of it; both use layers, and values from outside."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.step = nn.Dense(4, flatten=False)
            self.other = nn.Dense(4, flatten=False)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        offset = x[:, :1] * x.shape[1]

        def body(i: Any, state: Any) -> Any:
            new = F.contrib.cond(
                F.sum(state[0]) > 0,
                lambda: F.broadcast_add(self.step(state), offset),
                lambda: self.other(state) * x.shape[0],
            )
            return new[:, 0], (i + 1, new)

        return F.contrib.while_loop(
            lambda i, state: i < F.sum(x > 0), body, (F.zeros((1,)), x), max_iterations=5
        )


def test_loops_and_branches_around_shapes_are_written(tmp_path: Path) -> None:
    net = ready(LoopsAndBranches(prefix="net_"), mx.init.Normal(1), hybridize=True)
    x = values(3, 4)
    net(x)
    block = exported(net, tmp_path)
    assert ops_of(tmp_path).count("_while_loop") == 1
    for example in (x, -x, nd.full((3, 4), -1), nd.array([[-9, 1, 1, 1]] * 3)):
        (steps, (count, state)), found = net(example), block(example)
        for got, want in zip(found, (steps, count, state)):
            same(got, want)
    counts = [net(example)[1][0].asscalar() for example in (x, -x, nd.full((3, 4), -1))]
    assert len(set(counts)) > 1 and counts[-1] == 0
    with mx.autograd.record():
        block(x)[2].sum().backward()
    got = {name: p.grad() for name, p in block.collect_params().items() if p.grad_req != "null"}
    with mx.autograd.record():
        net(x)[1][1].sum().backward()
    for name, param in net.collect_params().items():
        same(got[name], param.grad())


class _Doubled(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * 2)


@mx.operator.register("doubled_in_an_export")
class _DoubledProp(mx.operator.CustomOpProp):
    def __init__(self, factor: str) -> None:
        super().__init__()
        assert factor == "3"

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Doubled:
        return _Doubled()


def test_custom_operators_around_shapes_are_written(tmp_path: Path) -> None:
    def forward(F: Any, x: Any) -> Any:  # noqa: N803
        return F.Custom(x, op_type="doubled_in_an_export", factor=3) * x.shape[0]

    checked(lambda_block(forward), tmp_path, values(3, 4))
    assert ops_of(tmp_path) == ["Custom", "_mul_scalar"]


def test_a_captured_array_is_saved_and_not_trained(tmp_path: Path) -> None:
    table = nd.array([[1.0, 2.0], [3.0, 4.0]])
    net = lambda_block(lambda F, x: F.dot(x, table) + x.shape[1])
    x = values(3, 2)
    block = checked(net, tmp_path, x)
    params = block.collect_params()
    assert list(params) == ["net_captured0"]
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 1.0, "wd": 0.1})
    recorded(lambda: block(x).sum())
    trainer.step(1)
    same(params["net_captured0"].data(), table)


def test_nodes_of_a_symbol_keep_their_names_and_attributes(tmp_path: Path) -> None:
    data = mx.sym.var("data")
    options = {"num_hidden": 2, "no_bias": True, "name": "head", "attr": {"__note__": "kept"}}
    product = mx.sym.FullyConnected(data, **options)
    inner = ready(gluon.SymbolBlock(mx.sym.relu(product, name="head_relu"), [data]))

    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__(prefix="net_")
            self.inner = inner

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            return self.inner(x * x.shape[1])

    net = hybridized(Net())
    checked(net, tmp_path, values(3, 4))
    nodes = json.loads((tmp_path / "net-symbol.json").read_text())["nodes"]
    found = {node["name"]: node.get("attrs", {}) for node in nodes}
    assert found["head"] == {"__note__": "kept", "no_bias": "True", "num_hidden": "2"}
    assert "head_relu" in found


def test_reading_values_names_the_line(tmp_path: Path) -> None:
    def forward(F: Any, x: Any) -> Any:  # noqa: N803
        return x * float(x.asnumpy().max())  # the line that cannot be traced

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            return forward(F, x)

    net = hybridized(Net())
    line = forward.__code__.co_firstlineno + 1
    with pytest.raises(MXNetError, match="hybridized forward is traced"):
        net(values(2, 2))
    with pytest.raises(MXNetError, match=rf"{Path(__file__).name}:{line}: asnumpy"):
        net.export(str(tmp_path / "net"))
    assert not list(tmp_path.iterdir())


def test_values_that_only_inference_reads_name_the_line(tmp_path: Path) -> None:
    def forward(F: Any, x: Any) -> Any:  # noqa: N803
        if mx.autograd.is_training():
            return x * x.shape[0]
        return x * F.sum(x).asscalar()

    net = lambda_block(forward)
    with mx.autograd.train_mode():
        net(values(2, 2))
    line = forward.__code__.co_firstlineno + 3
    with pytest.raises(NotSupportedError, match=rf"Net 'net'.*{Path(__file__).name}:{line}: "):
        net.export(str(tmp_path / "net"))


def test_shapes_that_depend_on_values_name_the_line(tmp_path: Path) -> None:
    def forward(F: Any, x: Any) -> Any:  # noqa: N803
        chosen = nd.contrib.boolean_mask(x, x[:, 0] > 0)
        return chosen * x.shape[0]

    net = lambda_block(forward)
    net(nd.array([[1.0, 2.0], [-1.0, 3.0]]))
    line = forward.__code__.co_firstlineno + 1
    words = rf"{Path(__file__).name}:{line}: boolean_mask: .*depends on the"
    with pytest.raises(NotSupportedError, match=words):
        net.export(str(tmp_path / "net"))


def test_a_recorded_checkpoint_has_no_symbol() -> None:
    net = nn.Dense(2)
    net.checkpoint()
    outer = ready(sequential(net), hybridize=True)
    with mx.autograd.record():
        y = outer(values(3, 4))
    with pytest.raises(NotSupportedError, match="checkpoint"):
        mx.autograd.get_symbol(y)
