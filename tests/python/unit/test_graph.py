"""CachedGraph: signatures, parameters, memory of outputs, errors, captured arrays, threads."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core, nd
from mxlite.base import DTypeError, MXNetError, ShapeError, TypeError_
from pairing import assert_all_equal
from processes import run_program


def compiled(forward: Callable[..., Any], params: tuple[Any, ...] = (), name: str = "Net") -> Any:
    """Compile ``forward(*inputs, *params)``."""

    def trace(inputs: list[Any], arrays: list[Any]) -> list[Any]:
        outputs = forward(*inputs, *arrays)
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    graph = _core.CachedGraph(trace, name)
    graph.set_params(list(params))
    return graph


def dense_relu(x: Any, w: Any, b: Any) -> Any:
    return nd.relu(nd.FullyConnected(x, w, b, num_hidden=4))


def dense_params() -> tuple[Any, Any]:
    return nd.random.normal(shape=(4, 3)), nd.random.normal(shape=(4,))


def test_one_row_through_a_large_layer_and_relu() -> None:
    w, b = nd.random.normal(shape=(300, 129)), nd.random.normal(shape=(300,))
    x = nd.random.normal(shape=(1, 129))
    y = compiled(lambda x, w, b: nd.relu(nd.FullyConnected(x, w, b, num_hidden=300)), (w, b))(x)
    expected = np.maximum(x.asnumpy() @ w.asnumpy().T + b.asnumpy(), 0)
    np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-4, atol=1e-4)
    x[:] = np.nan
    assert np.isnan(nd.relu(nd.FullyConnected(x, w, b, num_hidden=300)).asnumpy()).all()


def test_packed_weights_follow_the_parameters() -> None:
    """Layouts and folded normalization are computed from the parameters only when they change."""

    def forward(x: Any, w: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
        y = nd.Convolution(x, w, kernel=(3, 3), num_filter=32, no_bias=True)
        return nd.BatchNorm(y, gamma, beta, mean, var, fix_gamma=False)

    x = nd.random.normal(shape=(4, 16, 24, 24))
    params = [nd.random.uniform(0.5, 1, shape=(32, 16, 3, 3))]
    params += [nd.random.uniform(0.5, 1, shape=(32,)) for _ in range(4)]
    graph = compiled(forward, tuple(params))
    for p in [None, *params]:
        if p is not None:
            p *= 1.5
        expected = forward(x, *params).asnumpy()
        for _ in range(2):
            np.testing.assert_allclose(graph(x).asnumpy(), expected, rtol=1e-4, atol=1e-3)
    replaced = params[0].copy()
    replaced *= -1
    graph.set_params([replaced, *params[1:]])
    expected = forward(x, replaced, *params[1:]).asnumpy()
    np.testing.assert_allclose(graph(x).asnumpy(), expected, rtol=1e-4, atol=1e-3)
    assert (graph.num_signatures, graph.name) == (1, "Net")


def test_outputs_are_never_overwritten_later() -> None:
    w = nd.ones((2, 2))
    graph = compiled(lambda x, w: (x, w, x.reshape((4,)), x + 1, w * 2, x + 1), (w,))
    x = nd.zeros((2, 2))
    first = graph(x)
    values = [a.asnumpy() for a in first]
    x[:] = 7
    w[:] = 5
    graph(x)
    assert_all_equal(first, values)
    first[0][:] = 9
    first[1][:] = 9
    assert (x.asnumpy() == 7).all() and (w.asnumpy() == 5).all()
    assert (first[2].asnumpy() == 0).all()


def test_inputs_of_any_strides() -> None:
    x = nd.arange(12).reshape((3, 4))
    graph = compiled(lambda x: x + 1)
    np.testing.assert_array_equal(graph(x.T).asnumpy(), x.asnumpy().T + 1)
    np.testing.assert_array_equal(graph(x[:, 1:3]).asnumpy(), x.asnumpy()[:, 1:3] + 1)
    np.testing.assert_array_equal(graph(x[1:]).asnumpy(), x.asnumpy()[1:] + 1)


def test_captured_arrays_are_current() -> None:
    scale = nd.array([2.0])
    graph = compiled(lambda x: x * scale)
    x = nd.ones((3,))
    assert (graph(x).asnumpy() == 2).all()
    scale[:] = 5
    assert (graph(x).asnumpy() == 5).all()
    made_inside = compiled(lambda x: x + nd.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(made_inside(x).asnumpy(), [2, 3, 4])


def test_random_numbers_differ_by_call_and_follow_the_seed() -> None:
    graph = compiled(lambda x: nd.Dropout(x, p=0.5, mode="always"))
    x = nd.ones((100,))
    mx.random.seed(3)
    a, b = graph(x).asnumpy(), graph(x).asnumpy()
    assert (a != b).any()
    mx.random.seed(3)
    np.testing.assert_array_equal(graph(x).asnumpy(), a)
    mx.random.seed(3)
    np.testing.assert_array_equal(nd.Dropout(x, p=0.5, mode="always").asnumpy(), a)


def test_empty_and_scalar_arrays() -> None:
    graph = compiled(lambda x: nd.relu(x) * 2)
    assert graph(nd.zeros((0, 3))).shape == (0, 3)
    assert graph(nd.array(3.0).reshape(())).asscalar() == 6


def test_infer_params() -> None:
    x = nd.zeros((2, 3, 8, 8))

    def trace(inputs: list[Any], params: list[Any]) -> list[Any]:
        y = nd.Convolution(inputs[0], *params[:2], kernel=(3, 3), num_filter=4)
        return [nd.FullyConnected(y, *params[2:4], num_hidden=5)]

    unknown = [((4, 0, 3, 3), "float32"), ((-1,), "float32"), ((5, 0), np.float32), ((), "float32")]
    shapes, _ = _core.infer_params(trace, "net", [x], [*unknown, ((7, 0), "float32")])
    assert shapes == [(4, 3, 3, 3), (4,), (5, 144), (5,), (7, -1)]
    with pytest.raises(ShapeError, match=r"broadcast_mul.*not known.*\(0|broadcast_mul.*\(-1"):
        _core.infer_params(lambda i, p: [i[0] * p[0]], "net", [x], [((0,), "float32")])
    with pytest.raises(ShapeError, match=r"Convolution"):
        _core.infer_params(trace, "net", [x], [((4, 5, 3, 3), "float32"), *unknown[1:]])


def test_reading_data_while_tracing_says_what_to_do() -> None:
    x = nd.ones((2, 2))
    waits = [nd.NDArray.asnumpy, nd.NDArray.wait_to_read, nd.NDArray.asscalar]
    for read in (*waits, bool, float):
        with pytest.raises(MXNetError, match="hybridized forward is traced"):
            compiled(lambda x, read=read: (read(x.sum()), x)[1])(x)
    assert (compiled(lambda x: x + 1)(x).asnumpy() == 2).all()  # the failed trace is gone


def test_traced_arrays_do_not_leak() -> None:
    kept = []
    compiled(lambda x: (kept.append(x * 2), x)[1])(nd.ones((2,)))
    for use in (
        lambda: kept[0] + 1,
        lambda: compiled(lambda x: x + kept[0])(nd.ones((2,))),
        lambda: compiled(lambda x: x)(kept[0]),
    ):
        with pytest.raises(MXNetError, match="instead of keeping it"):
            use()


def test_wrong_arguments() -> None:
    graph = compiled(lambda x: x + 1)
    for call, error, words in [
        (lambda: graph(3), TypeError_, "Net: input 0 must be an NDArray, got int"),
        (lambda: graph(x=nd.ones((2,))), TypeError_, "keyword"),
        (lambda: _core.CachedGraph(3), TypeError, "callable"),
        (
            lambda: graph.set_params([nd.ones(1), "w"]),
            TypeError_,
            "entry 1 must be an NDArray, got str",
        ),
        (lambda: compiled(lambda x: 3)(nd.ones((2,))), TypeError_, "trace: the result"),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_errors_of_forward_come_through() -> None:
    with pytest.raises(ZeroDivisionError):
        compiled(lambda x: 1 / 0)(nd.ones((2,)))
    with pytest.raises(ShapeError, match="FullyConnected"):
        compiled(dense_relu, dense_params())(nd.ones((2, 5)))
    with pytest.raises(DTypeError):
        compiled(dense_relu, dense_params())(nd.ones((2, 3), dtype="float64"))


def test_failures_name_the_node_and_the_block() -> None:
    fails = mx._core.op("_raise_async")
    x = nd.ones((2, 2))
    graph = compiled(lambda x: nd.relu(fails(x + 1)))
    y = graph(x)
    for _ in range(2):
        with pytest.raises(MXNetError, match="fails by design(.|\n)*while running node .* of Net"):
            y.asnumpy()
    with pytest.raises(MXNetError, match="fails by design"):
        compiled(lambda x: x + 1)(y).asnumpy()
    assert (compiled(lambda x: x + 1)(x).asnumpy() == 2).all()


def test_failed_parameters_recover() -> None:
    w = mx._core.op("_raise_async")(nd.ones((16, 16)))
    graph = compiled(lambda x, w: nd.dot(x, nd.relu(w)), (w,))  # relu(w) is kept between calls
    x = nd.ones((16, 16))
    for _ in range(2):
        with pytest.raises(MXNetError, match="fails by design"):
            graph(x).asnumpy()
    w[:] = 1
    assert (graph(x).asnumpy() == 16).all()


def test_a_graph_inside_a_trace_is_inlined() -> None:
    w = nd.array([3.0])
    inner = compiled(lambda x, w: nd.relu(x) * w, (w,), "inner")
    outer = compiled(lambda x: inner(x - 1) + 1, (), "outer")
    x = nd.array([-1.0, 2.0])
    np.testing.assert_array_equal(outer(x).asnumpy(), [1, 4])
    assert inner.num_signatures == 0
    w[:] = 10
    np.testing.assert_array_equal(outer(x).asnumpy(), [1, 11])


def test_in_place_writes_of_parameters_by_the_user_between_calls_are_ordered() -> None:
    w = nd.zeros((256, 256))
    graph = compiled(lambda x, w: nd.dot(x, w), (w,))
    x = nd.ones((256, 256))
    outputs = []
    for i in range(20):
        w[:] = i
        outputs.append(graph(x))
    for i, y in enumerate(outputs):
        assert (y.asnumpy() == i * 256).all()


@pytest.mark.parametrize("size", [4, 300])
def test_threads_share_a_graph(size: int) -> None:
    w = nd.random.normal(shape=(size, size))
    graph = compiled(lambda x, w: nd.tanh(nd.dot(nd.relu(x), w)), (w,))
    inputs = [nd.random.normal(shape=(rows, size)) for rows in (1, 2, 3, 4)]
    expected = [np.tanh(np.maximum(x.asnumpy(), 0) @ w.asnumpy()) for x in inputs]

    def work(k: int) -> None:
        for i in range(40):
            j = (i + k) % len(inputs)
            y = graph(inputs[j]).asnumpy()
            np.testing.assert_allclose(y, expected[j], rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


SCRIPT = """
import numpy as np, mxlite as mx
from mxlite import nd
from mxlite.gluon import nn
net = nn.HybridSequential(prefix="net_")
with net.name_scope():
    net.add(nn.Conv2D(8, 3, in_channels=3, use_bias=False), nn.BatchNorm(in_channels=8),
            nn.Activation("relu"))
net.initialize()
x = nd.random.normal(shape=(2, 3, 40, 40))
eager = net(x).asnumpy()
net.hybridize()
np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-4, atol=1e-4)
"""


def test_dump_and_verification(tmp_path: Any) -> None:
    run_program(SCRIPT, MXLITE_DUMP_GRAPH=str(tmp_path), MXLITE_VERIFY_GRAPH="1")
    names = sorted(p.name for p in tmp_path.iterdir())
    stages = [n.split("_", 1)[1].rsplit("_", 1)[1] for n in names]
    assert stages[0] == "inference.txt" and stages[-1] == "program.txt"
    assert "fuse-post-ops.txt" in stages
    traced = (tmp_path / names[0]).read_text()
    assert "BatchNorm" in traced and "Activation" in traced
    program = (tmp_path / names[-1]).read_text()
    main = program.split("at each run:")[1]
    assert "BatchNorm" not in main and "Activation" not in main and "Convolution" in main


def test_passes_print_the_numbers_of_nodes() -> None:
    done = run_program(SCRIPT, MXLITE_VERBOSE="passes")
    lines = [line for line in done.stderr.splitlines() if line.startswith("mxlite: net: ")]
    assert any(re.search(r"inference: fold-batch-norm: \d+ -> \d+ nodes", x) for x in lines)
    assert re.search(r"lower: plan-memory: \d+ -> \d+ instructions", lines[-1])


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_value_is_added_to_itself_many_times(count: int) -> None:
    w, b = nd.ones((8, 3)), nd.ones((8,))
    convolution = compiled(
        lambda x, w: nd.add_n(
            *[nd.Convolution(x, w, num_filter=8, kernel=(3, 3), no_bias=True)] * count
        ),
        (nd.ones((8, 3, 3, 3)),),
    )
    np.testing.assert_array_equal(convolution(nd.ones((2, 3, 5, 6))).asnumpy(), 27.0 * count)
    dense = compiled(
        lambda x, w, b: nd.add_n(*[nd.FullyConnected(x, w, b, num_hidden=8)] * count), (w, b)
    )
    np.testing.assert_array_equal(dense(nd.ones((16, 3))).asnumpy(), 4.0 * count)
