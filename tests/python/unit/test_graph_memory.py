"""Memory of compiled graphs over many input shapes: shared weights, and a bounded cache."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import _core, gluon, nd
from processes import run_program
from recording import differentiated

PRELUDE = """
import gc
import mxlite as mx
import numpy as np
from mxlite import _core, autograd, gluon, nd

def resident_mib():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20
"""

# The packed weights of one shape take 28 MiB.
CONVOLUTIONS = """
mx.random.seed(0)
net = gluon.nn.HybridSequential()
for _ in range(3):
    net.add(gluon.nn.Conv2D(512, 3, padding=1, in_channels=512), gluon.nn.BatchNorm())
net.initialize(mx.init.Xavier())
net.hybridize()
shapes = [(1, 512, 4, width) for width in range(4, 24)]
shapes.insert(0, (1, 512, 16, 16))  # alone, it would get weights of four times their size
"""

# The program of each use of the network.
USES = {
    "block": """
call = net
""",
    "symbol_block": """
net(nd.zeros(shapes[-1]))
files = net.export(prefix)
del net
imported = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
imported.hybridize()
call = imported
""",
    "module": """
net(nd.zeros(shapes[-1]))
net.export(prefix)
del net
symbol, arguments, states = mx.model.load_checkpoint(prefix, 0)
module = mx.mod.Module(symbol, label_names=None)
module.bind([("data", shapes[-1])], for_training=False)
module.set_params(arguments, states)
def call(x):
    module.forward(mx.io.DataBatch([x]), is_train=False)
    return module.get_outputs()[0]
""",
}

MEASURE = """
call(nd.zeros(shapes[-1])).asnumpy()
begin = resident_mib()
for shape in reversed(shapes):
    call(nd.ones(shape)).asnumpy()
print({"growth": resident_mib() - begin, **_core.graph_memory()})
"""


def measured(text: str, **environment: str) -> dict[str, Any]:
    """Run a program in a process of its own and return the dict that it prints."""
    found = ast.literal_eval(run_program(PRELUDE + text, seconds=300, **environment).stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("use", USES)
def test_image_sizes_share_packed_weights(use: str, tmp_path: Any) -> None:
    prefix = f"prefix = {str(tmp_path / 'net')!r}\n"
    found = measured(prefix + CONVOLUTIONS + USES[use] + MEASURE)
    # 560 MiB where every shape keeps a copy of its own. Kernels for AVX2 want two layouts, by the
    # width of the image.
    assert found["packed_weights"] < 60 * 2**20
    assert found["growth"] < 60


def test_batch_sizes_are_bounded_by_bytes() -> None:
    found = measured(
        """\
mx.random.seed(0)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(256, activation="relu", in_units=64), gluon.nn.Dense(10))
net.initialize()
net.hybridize()
x = nd.random.uniform(shape=(800, 64))
want = net(x).asnumpy()
for count in range(1, 701):
    net(x[:count]).wait_to_read()
    if count == 300:
        begin = resident_mib()
growth = resident_mib() - begin
np.testing.assert_allclose(net(x[:5]).asnumpy(), want[:5], rtol=1e-5, atol=1e-5)
print({"growth": growth, **_core.graph_memory()})
""",
        MXLITE_GRAPH_CACHE_MB="8",
    )
    assert found["limit"] == 8 * 2**20
    assert found["programs"] < 12 * 2**20
    assert found["growth"] < 40  # 140 MiB without a bound


def dense(x: Any, w: Any) -> Any:
    return nd.FullyConnected(x, w.astype("float32") * 2, no_bias=True, num_hidden=64)


def compiled(*params: Any) -> Any:
    graph = _core.CachedGraph(lambda inputs, arrays: [dense(inputs[0], *arrays)], "Net")
    graph.set_params(list(params))
    return graph


def expect(graph: Any, x: Any, w: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(graph(x).asnumpy(), x.asnumpy() @ w.T * 2, rtol=1e-4, atol=1e-4)


def test_shared_weights_follow_changes_of_the_parameter() -> None:
    w = nd.random.normal(shape=(64, 400))
    graph, other = compiled(w), compiled(w)
    inputs = [nd.random.normal(shape=(rows, 400)) for rows in (60, 70, 80)]
    before = _core.graph_memory()["packed_weights"]
    for x in inputs:
        expect(graph, x, w.asnumpy())
        expect(other, x, w.asnumpy())
    one_copy = 64 * 400 * 4
    assert _core.graph_memory()["packed_weights"] - before == one_copy
    w[:] = nd.random.normal(shape=(64, 400))
    for x in inputs:
        expect(other, x, w.asnumpy())
        expect(graph, x, w.asnumpy())
    # The last two are views of one memory, but two parameters. The other graph keeps its array.
    both = nd.random.normal(shape=(128, 400))
    for new in (nd.random.normal(shape=(64, 400)), both[:64], both[64:]):
        graph.set_params([new])
        for x in inputs:
            expect(graph, x, new.asnumpy())
            expect(other, x, w.asnumpy())
    del graph, other
    assert _core.graph_memory()["packed_weights"] == before


def test_the_same_arrays_at_other_positions_are_not_mixed_up() -> None:
    def pair(*params: Any) -> Any:
        graph = _core.CachedGraph(
            lambda inputs, arrays: [dense(inputs[0], arrays[0]) + 3 * dense(inputs[0], arrays[1])],
            "Net",
        )
        graph.set_params(list(params))
        return graph

    u, v = (nd.random.normal(shape=(64, 400)) for _ in range(2))
    x = nd.random.normal(shape=(60, 400))
    graphs = [(pair(u, v), u, v), (pair(v, u), v, u)]
    for _ in range(3):
        for graph, first, second in graphs:
            want = 2 * x.asnumpy() @ (first.asnumpy() + 3 * second.asnumpy()).T
            for _ in range(2):
                np.testing.assert_allclose(graph(x).asnumpy(), want, rtol=1e-3, atol=1e-3)
        u[:] = nd.random.normal(shape=(64, 400))


def test_threads_share_weights_while_they_change() -> None:
    w = nd.ones((64, 400))
    graphs = [compiled(w) for _ in range(4)]

    def work(graph: Any, seed: int) -> None:
        for i in range(40):
            y = graph(nd.ones((50 + (seed + i) % 7, 400))).asnumpy()
            assert np.unique(y).size == 1 and y[0, 0] in (800.0, 1600.0), y

    with ThreadPoolExecutor(4) as pool:
        pending = [pool.submit(work, graph, seed) for seed, graph in enumerate(graphs)]
        for i in range(60):
            w[:] = 1 + i % 2
    for one in pending:
        one.result()


def test_many_shapes_warn_once() -> None:
    graph = _core.CachedGraph(lambda inputs, arrays: [inputs[0] + 1], "Net")
    with pytest.warns(UserWarning, match="Net was compiled for 64 input shapes; pad or") as seen:
        for rows in range(1, 90):
            assert graph(nd.ones((rows,))).shape == (rows,)
    assert len(seen) == 1


def test_the_last_used_signatures_stay() -> None:
    found = measured(
        """\
traced = []
def forward(inputs, parameters):
    traced.append(inputs[0].shape)
    return [nd.FullyConnected(inputs[0], parameters[0], no_bias=True, num_hidden=8)]
graph = _core.CachedGraph(forward, "Net")
graph.set_params([nd.ones((8, 4000))])
for rows in (50, 51, 50, 51, 52, 52, 51, 52, 50):
    graph(nd.ones((rows, 4000))).wait_to_read()
print({"traced": [shape[0] for shape in traced], "kept": graph.num_signatures})
""",
        MXLITE_GRAPH_CACHE_MB="0",
    )
    assert found == {"traced": [50, 51, 52, 50], "kept": 2}


def test_evicted_signatures_finish_what_was_recorded() -> None:
    found = measured(
        """\
net = gluon.nn.Dense(1, in_units=3, use_bias=False)
net.initialize(mx.init.One())
net.hybridize()
with autograd.record():
    total = sum(net(nd.ones((rows, 3))).sum() for rows in range(1, 9))
total.backward()
print({"grad": net.weight.grad().asnumpy().tolist(), "total": float(total.asscalar())})
""",
        MXLITE_GRAPH_CACHE_MB="0",
    )
    assert found == {"grad": [[36.0] * 3], "total": 108.0}


def test_hybridize_frees_the_activations_of_the_graph_before() -> None:
    """A user who hybridizes again, as after a warm-up, does not hold both graphs' memory."""
    net = gluon.nn.HybridSequential()
    for _ in range(8):
        net.add(gluon.nn.Dense(1024, activation="tanh", in_units=1024))
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    x = mx.nd.ones((1000, 1024))
    differentiated(net, x)
    mx.nd.waitall()

    def held() -> int:
        stats = mx.runtime.memory_stats(mx.cpu())
        return stats["in_use"] + stats["cached"]

    before = held()
    net.hybridize(static_alloc=True, static_shape=True)
    freed = before - held()
    assert freed >= 7 * x.size * 4, freed
