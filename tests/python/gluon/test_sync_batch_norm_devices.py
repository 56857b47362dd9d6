"""SyncBatchNorm over devices of one process gives what BatchNorm gives for the whole batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn import SyncBatchNorm
from numpy.testing import assert_allclose
from processes import run_python
from recording import recorded

EPSILON, MOMENTUM = 1e-4, 0.7


def contexts(count: int) -> list[mx.Context]:
    return [mx.cpu(i) for i in range(count)]


def layer(kind: Any, channels: int, ctx: Any, dtype: str = "float32", **options: Any) -> Any:
    made = kind(in_channels=channels, momentum=MOMENTUM, epsilon=EPSILON, prefix="bn_", **options)
    made.initialize(ctx=ctx)
    if channels:
        random = np.random.RandomState(1)
        made.gamma.set_data(nd.array(random.uniform(0.5, 2, channels)))
        made.beta.set_data(nd.array(random.uniform(-1, 1, channels)))
    made.cast(dtype)
    return made


def batches(sizes: list[int], shape: tuple[int, ...], dtype: str = "float32") -> list[list[Any]]:
    """Return the data and the head gradients of the devices."""
    random = np.random.RandomState(7)
    data = [random.normal(3 + i, 2, (n, *shape)).astype(dtype) for i, n in enumerate(sizes)]
    return [data, [random.uniform(-1, 1, (n, *shape)).astype(dtype) for n in sizes]]


def on_devices(parts: list[Any], ctx: list[mx.Context]) -> list[nd.NDArray]:
    return [nd.array(part, ctx=device, dtype=part.dtype) for part, device in zip(parts, ctx)]


def check(
    sizes: list[int],
    shape: tuple[int, ...],
    hybridize: bool = False,
    dtype: str = "float32",
    channels: int | None = None,
    backward: str = "of each",
    tolerance: float = 2e-5,
) -> None:
    """Compare two steps of training, with a backward of each device, of all, or in threads."""
    ctx = contexts(len(sizes))
    data, heads = batches(sizes, shape, dtype)
    channels = shape[0] if channels is None else channels
    ours = layer(SyncBatchNorm, channels, ctx, dtype, num_devices=len(sizes))
    plain = layer(nn.BatchNorm, channels, mx.cpu(), dtype)
    ours.hybridize(hybridize)
    xs = on_devices(data, ctx)
    gradients = on_devices(heads, ctx)
    whole = nd.array(np.concatenate(data), dtype=dtype)
    for x in (*xs, whole):
        x.attach_grad()
    ys: list[Any] = [None] * len(sizes)

    def run(i: int) -> None:
        with autograd.record():
            ys[i] = ours(xs[i])
        ys[i].backward(gradients[i])

    for _ in range(2):
        if backward == "in threads":
            with ThreadPoolExecutor(len(sizes)) as pool:
                list(pool.map(run, range(len(sizes)), timeout=60))
        else:
            with autograd.record():
                ys = [ours(x) for x in xs]
            groups = [[i] for i in range(len(ys))] if backward == "of each" else [range(len(ys))]
            for group in groups:
                autograd.backward([ys[i] for i in group], [gradients[i] for i in group])
        wanted = recorded(plain, whole, head=nd.array(np.concatenate(heads), dtype=dtype))
    places = np.cumsum([0, *sizes])
    for i, (x, y) in enumerate(zip(xs, ys)):
        rows = slice(places[i], places[i + 1])
        assert y.ctx == ctx[i] and y.dtype == x.dtype
        for got, want in ((y, wanted), (x.grad, whole.grad)):
            assert_allclose(got.asnumpy(), want.asnumpy()[rows], tolerance, tolerance * 4)
        for name in ("running_mean", "running_var"):
            got, want = getattr(ours, name).data(ctx[i]), getattr(plain, name).data()
            assert_allclose(got.asnumpy(), want.asnumpy(), rtol=tolerance, atol=tolerance)
    for name in ("gamma", "beta"):
        total = sum(grad.asnumpy() for grad in getattr(ours, name).list_grad())
        want = getattr(plain, name).grad().asnumpy()
        limit = tolerance * max(1.0, np.abs(want).max()) * 5
        assert_allclose(total, want, rtol=tolerance, atol=limit)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("backward", ["of each", "of all", "in threads"])
@pytest.mark.parametrize("sizes", [[3, 3], [2, 5], [1, 2, 4]], ids=str)
def test_it_equals_one_batch_norm(sizes: list[int], backward: str, hybridize: bool) -> None:
    check(sizes, (3, 4, 5), hybridize, backward=backward)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((3,), {}),
        ((2, 7), {}),
        ((2, 3, 2, 2), {}),
        ((3, 5), {"dtype": "float64", "tolerance": 1e-5}),
        ((3, 5), {"dtype": "float16", "tolerance": 4e-3}),
        ((3, 5), {"channels": 0}),
        ((3, 5), {"channels": 0, "hybridize": True}),
    ],
)
def test_shapes_types_and_unknown_channels(shape: tuple[int, ...], options: Any) -> None:
    check([8, 8] if "dtype" in options else [4, 6], shape, **options)


def small_net(kind: Any, ctx: Any, **options: Any) -> Any:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3), kind(**options), nn.Activation("relu"))
        net.add(nn.Conv2D(3, 2), kind(**options), nn.Dense(2))
    mx.random.seed(2)
    net.initialize(mx.init.Xavier(), ctx=ctx)
    return net


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_network_trains_as_on_one_device(hybridize: bool) -> None:
    random = np.random.RandomState(3)
    data = random.normal(size=(4, 8, 2, 7, 7)).astype("float32")
    labels = random.normal(size=(4, 8, 2)).astype("float32")
    results = []
    for kind, ctx, options in (
        (nn.BatchNorm, [mx.cpu()], {}),
        (SyncBatchNorm, contexts(2), {"num_devices": 2}),
    ):
        net = hybridized(small_net(kind, ctx, **options), hybridize)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        losses = []
        for x, label in zip(data, labels):
            xs = gluon.utils.split_and_load(x, ctx)
            ys = gluon.utils.split_and_load(label, ctx)
            with autograd.record():
                parts = [((net(a) - b) ** 2).sum() for a, b in zip(xs, ys)]
            for part in parts:
                part.backward()
            trainer.step(8)
            losses.append(sum(part.asscalar() for part in parts))
        values = {name: p.data().asnumpy() for name, p in net.collect_params().items()}
        answer = net(nd.array(data[0], ctx=ctx[-1])).asnumpy()
        results.append((losses, values, answer))
    (want_losses, want, want_answer), (losses, got, answer) = results
    assert_allclose(losses, want_losses, rtol=1e-4)
    assert_allclose(answer, want_answer, rtol=1e-3, atol=1e-4)
    for mine, theirs in zip(got.values(), want.values()):
        assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)


def test_a_layer_may_run_several_times_in_a_pass() -> None:
    ctx = contexts(2)
    data, _ = batches([3, 3], (2, 4))
    ours, plain = layer(SyncBatchNorm, 2, ctx), layer(nn.BatchNorm, 2, mx.cpu())
    xs, whole = on_devices(data, ctx), nd.array(np.concatenate(data))
    for x in (*xs, whole):
        x.attach_grad()
    with autograd.record():
        ys = [ours(ours(x) ** 3) for x in xs]
        wanted = plain(plain(whole) ** 3)
        heads = [(y * y * y).sum() for y in ys]
        head = (wanted * wanted * wanted).sum()
    for one in heads:
        one.backward()
    head.backward()
    assert_allclose(np.concatenate([y.asnumpy() for y in ys]), wanted, rtol=1e-4, atol=1e-4)
    got = np.concatenate([x.grad.asnumpy() for x in xs])
    want = whole.grad.asnumpy()
    assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())


def test_the_function_finds_calls_by_key() -> None:
    ctx = contexts(2)
    data, _ = batches([3, 4], (2, 4))
    everything = np.concatenate(data)
    results = []
    with autograd.record():
        for x in on_devices(data, ctx):
            ones, zeros = nd.ones(2, ctx=x.ctx), nd.zeros(2, ctx=x.ctx)
            moving = [nd.zeros(2, ctx=x.ctx), nd.ones(2, ctx=x.ctx)]
            options = {"eps": EPSILON, "ndev": 2, "key": "a", "output_mean_var": True}
            results.append(nd.contrib.SyncBatchNorm(x, ones, zeros, *moving, **options))
    mean, var = everything.mean((0, 2)), everything.var((0, 2))
    for _, got_mean, got_var in results:
        assert_allclose(got_mean.asnumpy(), mean, rtol=1e-5)
        assert_allclose(got_var.asnumpy(), var, rtol=1e-5)
    wanted = (everything - mean[:, None]) / np.sqrt(var + EPSILON)[:, None]
    got = np.concatenate([y.asnumpy() for y, _, _ in results])
    assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("training", "devices"), [(True, 1), (False, 2)])
def test_one_device_normalizes_alone_in_inference_or_if_asked_to(
    training: bool, devices: int
) -> None:
    ours = layer(SyncBatchNorm, 2, contexts(2), num_devices=devices)
    plain = layer(nn.BatchNorm, 2, mx.cpu())
    data = batches([3], (2, 4))[0][0]
    with autograd.record(training):
        y = ours(nd.array(data, ctx=mx.cpu(1)))
        wanted = plain(nd.array(data))
    assert_allclose(y.asnumpy(), wanted.asnumpy(), rtol=2e-5, atol=1e-5)


def test_a_pass_that_was_given_up_does_not_reach_into_the_next() -> None:
    ctx = contexts(2)
    data, _ = batches([3, 3], (2, 4))
    ours = layer(SyncBatchNorm, 2, ctx)
    with autograd.record():
        lost = ours(nd.array(100 + data[0], ctx=ctx[0]))  # and the other device never follows
    with autograd.record():
        ys = [ours(x) for x in on_devices(data, ctx)]
    plain = layer(nn.BatchNorm, 2, mx.cpu())
    with autograd.record():
        wanted = plain(nd.array(np.concatenate(data)))
    got = np.concatenate([y.asnumpy() for y in ys])
    assert_allclose(got, wanted.asnumpy(), rtol=1e-4, atol=1e-4)
    with pytest.raises(mx.MXNetError, match=r"cpu\(0\) has begun another pass"):
        lost.wait_to_read()


def test_devices_of_different_channels_are_an_error() -> None:
    with autograd.record():
        ones, zeros = nd.ones(2), nd.zeros(2)
        arrays = [nd.ones((3, 2)), ones, zeros, nd.zeros(2), nd.ones(2)]
        first = nd.contrib.SyncBatchNorm(*arrays, ndev=2, key="c")
        ones, zeros = nd.ones(3, ctx=mx.cpu(1)), nd.zeros(3, ctx=mx.cpu(1))
        with pytest.raises(ValueError, match="Concat: array 1"):
            nd.contrib.SyncBatchNorm(
                nd.ones((3, 3), ctx=mx.cpu(1)), ones, zeros, zeros + 0, ones + 0, ndev=2, key="c"
            )
    with pytest.raises(mx.MXNetError, match="Concat: array 1"):
        first.wait_to_read()


def test_gradients_of_gradients_are_refused() -> None:
    ctx = contexts(2)
    ours = layer(SyncBatchNorm, 2, ctx)
    xs = on_devices(batches([3, 3], (2, 4))[0], ctx)
    xs[0].attach_grad()
    with autograd.record():
        ys = [ours(x) for x in xs]
        with pytest.raises(NotImplementedError, match="gradients of gradients"):
            autograd.grad(ys[0], [xs[0]], create_graph=True)


@pytest.mark.parametrize(("given", "devices"), [(3, 2), (2, 1)])
def test_a_wrong_number_of_devices_is_an_error(given: int, devices: int) -> None:
    ours = layer(SyncBatchNorm, 2, contexts(devices), num_devices=given)
    message = f"num_devices must be {devices} in training, got {given}"
    with autograd.record(), pytest.raises(NotImplementedError, match=message):
        ours(nd.ones((2, 2)))


_PROGRAM = """
import mxlite as mx
from mxlite import autograd
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn import SyncBatchNorm

ctx = [mx.cpu(0), mx.cpu(1)]
net = nn.HybridSequential()
for _ in range(10):
    net.add(nn.Dense(8, in_units=8), SyncBatchNorm(in_channels=8))
net.initialize(ctx=ctx)
with autograd.record():
    losses = [net(mx.nd.ones((4, 8), ctx=device)).sum() for device in DEVICES]
"""


_MISSING = """
import time
import mxlite as mx
import numpy as np
from mxlite import autograd
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn import SyncBatchNorm

ctx = [mx.cpu(i) for i in range(3)]
layer = SyncBatchNorm(in_channels=2, num_devices=3, prefix="bn_")
layer.initialize(ctx=ctx)
data = np.random.RandomState(1).normal(2, 3, (3, 4, 2))


def fails(array, words):
    begin = time.monotonic()
    try:
        array.wait_to_read()
    except mx.base.CommunicatorError as error:
        assert words in str(error), error
    else:
        raise SystemExit("no error")
    assert time.monotonic() - begin < 20


begin = time.monotonic()
with autograd.record():
    ys = [layer(mx.nd.array(data[i], ctx=ctx[i])) for i in range(2)]
assert time.monotonic() - begin < 0.9  # the calls do not wait
for y in ys:
    fails(y, "2 of 3 devices of this process have called it (cpu(0), cpu(1))")
assert time.monotonic() - begin > 0.9

# The next pass is right, and a device may be missing in backward, too.
xs = [mx.nd.array(x, ctx=device) for x, device in zip(data, ctx)]
for x in xs:
    x.attach_grad()
with autograd.record():
    ys = [layer(x) for x in xs]
    heads = [(y * y).sum() for y in ys]
for head in heads[:2]:
    head.backward()
plain = nn.BatchNorm(in_channels=2)
plain.initialize()
with autograd.record():
    wanted = plain(mx.nd.array(data.reshape(12, 2)))
got = np.concatenate([y.asnumpy() for y in ys])
np.testing.assert_allclose(got, wanted.asnumpy(), rtol=1e-4, atol=1e-5)
fails(xs[0].grad, "backward: 2 of 3 devices")
print("end")
"""


def test_a_missing_device_is_an_error_by_the_deadline() -> None:
    done = run_python("-c", _MISSING, environment={"MXLITE_COMM_TIMEOUT": "1"}, timeout=60)
    assert done.stdout == "end\n"


def test_limits_of_work_in_flight_do_not_stop_the_other_devices() -> None:
    backward = "for loss in losses:\n    loss.backward()\nprint(losses[1].asscalar())\n"
    limits = {"MXLITE_ENGINE_MAX_TASKS": "8", "MXLITE_ENGINE_MAX_BYTES": "1024"}
    program = _PROGRAM.replace("DEVICES", "ctx") + backward
    assert float(run_python("-c", program, environment=limits, timeout=60).stdout) == 0


def test_a_program_ends_with_an_open_exchange() -> None:
    program = _PROGRAM.replace("DEVICES", "ctx[:1]") + "print('end')\n"
    assert run_python("-c", program, timeout=40).stdout == "end\n"


def test_the_naive_engine_is_an_error() -> None:
    program, naive = _PROGRAM.replace("DEVICES", "ctx"), {"MXLITE_ENGINE": "naive"}
    error = run_python("-c", program, environment=naive, status=1).stderr
    assert "use MXLITE_ENGINE=threaded" in error and "NotSupportedError" in error
