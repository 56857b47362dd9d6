"""HybridBlock: hybridized equals eager, deferred shapes, structures, contexts, staleness, speed."""

from __future__ import annotations

import gc
import sys
import tempfile
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized, ready, sequential
from mxlite import autograd, gluon, nd
from mxlite.base import MXNetError
from mxlite.gluon import nn
from numpy.testing import assert_raises_regex
from recording import recorded


def conv_net() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Flatten())
    net.add(nn.Dense(5, activation="tanh"), nn.Dropout(0.5), nn.Dense(3))
    net.initialize("xavier")
    return net


def gradients(net: gluon.Block, x: Any) -> dict[str, Any]:
    with autograd.record(train_mode=False):
        y = net(x)
    y.backward()
    return {
        name: param.grad().asnumpy().copy()
        for name, param in net._collect_params_with_prefix().items()
        if param.grad_req != "null"
    }


def test_hybridized_equals_eager_forward_and_backward() -> None:
    net, x = conv_net(), nd.random.uniform(shape=(2, 3, 8, 8))
    eager, eager_grads = net(x).asnumpy(), gradients(net, x)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-5, atol=1e-6)
    for name, grad in gradients(net, x).items():
        np.testing.assert_allclose(grad, eager_grads[name], rtol=1e-4, atol=1e-5, err_msg=name)
    net.hybridize(False)
    np.testing.assert_array_equal(net(x).asnumpy(), eager)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_shapes_are_found_at_the_first_forward(hybrid: bool) -> None:
    net = hybridized(conv_net(), hybrid)
    assert net[0].weight.shape == (4, 0, 3, 3)
    net(nd.ones((2, 3, 8, 8)))
    assert net[0].weight.shape == (4, 3, 3, 3)
    assert net[1].gamma.shape == net[1].running_var.shape == (4,)
    assert net[4].weight.shape == (5, 36)
    assert net[6].weight.data().shape == (3, 5)


def test_infer_shape_finds_shapes_without_initializing() -> None:
    net = conv_net()
    net.infer_shape(nd.ones((2, 3, 8, 8)))
    assert net[4].weight.shape == (5, 36)
    with pytest.raises(gluon.DeferredInitializationError):
        net[4].weight.data()


def test_infer_type_follows_the_input() -> None:
    net = sequential(nn.Dense(2, in_units=2), nn.BatchNorm(in_channels=2))
    net.infer_type(nd.ones((1, 2), dtype="float16"))
    net.initialize()
    assert net[0].weight.data().dtype == np.float16
    assert net[1].gamma.data().dtype == np.float32


class Forward(gluon.HybridBlock):
    """Defines forward and asks its parameters for their data."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dense(3)
        self.scale = self.params.get("scale", shape=(3,), init="ones")

    def forward(self, x: Any) -> Any:
        return nd.broadcast_mul(self.inner(x), self.scale.data(x.ctx))


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_forward_can_be_defined_instead_of_hybrid_forward(hybrid: bool) -> None:
    net = ready(Forward(), "ones", hybridize=hybrid)
    for _ in range(2):
        np.testing.assert_array_equal(net(nd.ones((2, 4))).asnumpy(), np.full((2, 3), 4.0))
    net.scale.set_data(nd.array([1, 2, 3]))
    np.testing.assert_array_equal(net(nd.ones((1, 4))).asnumpy(), [[4, 8, 12]])


class Structured(gluon.HybridBlock):
    """Takes and returns nested lists."""

    def hybrid_forward(self, F: Any, x: Any, states: Any, skip: Any = None) -> Any:
        first, (second, third) = states
        return x + first, [second * 2, [third]], skip


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_nested_lists_and_none_keep_their_structure(hybrid: bool) -> None:
    net = hybridized(Structured(), hybrid)
    ones = nd.ones((2,))
    for _ in range(3):
        total, (second, (third,)), skip = net(ones, [ones, (ones * 2, ones * 3)], None)
        assert skip is None
        values = [array.asnumpy()[0] for array in (total, second, third)]
        assert values == [2, 4, 3]
    single = hybridized(nn.HybridLambda(lambda F, x: [x * 2]), hybrid)
    assert [len(single(ones)) for _ in range(3)] == [1] * 3


class ByMode(gluon.HybridBlock):
    """Returns one array for prediction and a list while training."""

    def forward(self, x: Any) -> Any:
        return [x, x * 2] if autograd.is_training() else x + 1


def test_the_structure_may_depend_on_the_mode() -> None:
    net = hybridized(ByMode())
    x = nd.ones((1,))
    for _ in range(3):
        assert net(x).asscalar() == 2
        with autograd.train_mode():
            one, two = net(x)
        assert (one.asscalar(), two.asscalar()) == (1, 2)


def test_other_shapes_types_and_modes_are_compiled_anew() -> None:
    net = hybridized(sequential(nn.Dropout(0.5), nn.HybridLambda(lambda F, x: x * 2)))
    for shape in [(2, 3), (4, 3), (2, 3), (1,)]:
        assert net(nd.ones(shape)).shape == shape
    assert net(nd.ones((2,), dtype="float64")).dtype == np.float64
    with autograd.train_mode():
        values = net(nd.ones((1000,))).asnumpy()
    assert set(np.unique(values)) == {0.0, 4.0}
    assert (net(nd.ones((1000,))).asnumpy() == 2).all()


def changed_net() -> tuple[nn.Dense, Any]:
    net = ready(nn.Dense(1, in_units=1, use_bias=False), "ones", hybridize=True)
    x = nd.array([[3.0]])
    assert [net(x).asscalar() for _ in range(3)] == [3, 3, 3]
    return net, x


def load_seven(net: nn.Dense) -> None:
    with tempfile.TemporaryDirectory() as folder:
        nd.save(f"{folder}/a", {"weight": nd.array([[7.0]])})
        net.load_parameters(f"{folder}/a")


@pytest.mark.parametrize(
    ("change", "weight"),
    [
        (lambda net: net.weight.set_data(nd.array([[2.0]])), 2),
        (lambda net: net.initialize(mx.init.Constant(5), force_reinit=True), 5),
        (load_seven, 7),
        (lambda net: net.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)]), 1),
    ],
)
def test_changed_weights_are_seen(change: Any, weight: float) -> None:
    net, x = changed_net()
    change(net)
    for ctx in net.weight.list_ctx() * 2:
        y = net(x.as_in_context(ctx))
        assert (y.context, y.asscalar()) == (ctx, 3 * weight)


def test_cast_is_seen() -> None:
    net, x = changed_net()
    net.cast("float64")
    y = net(x.astype("float64"))
    assert y.dtype == np.float64
    assert y.asscalar() == 3
    net.weight.cast("float32")
    assert net(x).dtype == np.float32


def test_a_gradient_switched_off_and_on_is_seen() -> None:
    net, x = changed_net()
    net.weight.grad_req = "null"
    with autograd.record():
        y = net(x)
    assert y.asscalar() == 3
    net.weight.grad_req = "add"
    for _ in range(2):
        y = recorded(net, x)
    assert net.weight.grad().asscalar() == 6


def test_hooks_of_a_hybridized_block_run_at_every_call() -> None:
    net, x = changed_net()
    seen: list[float] = []
    handle = net.register_forward_hook(lambda block, args, out: seen.append(out.asscalar()))
    for _ in range(3):
        net(x)
    handle.detach()
    net(x)
    assert seen == [3, 3, 3]


def test_threads_trace_and_run_side_by_side() -> None:
    def work(number: int) -> bool:
        net = nn.Dense(1, in_units=1, use_bias=False)
        ready(net, mx.init.Constant(number), hybridize=True)
        return all((net(nd.ones((n, 1))).asnumpy() == number).all() for n in range(1, 40))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_a_block_that_is_dropped_is_freed() -> None:
    net, x = changed_net()
    watch = weakref.ref(net)
    weight = weakref.ref(net.weight)
    del net
    gc.collect()
    assert watch() is None
    assert weight() is None


def test_a_plain_block_is_no_child_of_a_hybrid_one() -> None:
    net = nn.HybridSequential()
    with pytest.raises(ValueError, match="Children of HybridBlock must also be.*Derive it") as e:
        net.add(nn.Lambda("relu"))
    assert isinstance(e.value, MXNetError)


def test_an_uninitialized_block_says_so_in_both_modes() -> None:
    for hybrid in (False, True):
        net = hybridized(nn.Dense(1, in_units=1), hybrid)
        assert_raises_regex(RuntimeError, "_weight' has not been initialized", net, nd.ones((1, 1)))


class Borrows(gluon.HybridBlock):
    """Uses a parameter that is not part of the block."""

    def __init__(self, owner: nn.Dense) -> None:
        super().__init__()
        self.owners = [owner]

    def forward(self, x: Any) -> Any:
        return nd.broadcast_mul(x, self.owners[0].weight.data())


def test_a_parameter_of_nobody_keeps_a_hybridized_block_from_being_traced() -> None:
    owner = ready(nn.Dense(1, in_units=1), "ones")
    net = Borrows(owner)
    assert net(nd.ones((1, 1))).asscalar() == 1
    net.hybridize()
    with pytest.warns(UserWarning, match="_weight' is used in the forward .* does not own it"):
        assert net(nd.ones((1, 1))).asscalar() == 1


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda net: net(3), "inputs .* must be NDArrays .* got 3 of type int"),
        (lambda net: net.hybridize(static_shape=True), "needs static_alloc=True"),
        (lambda net: net.hybridize(backend="MKLDNN"), "backend must be None.*, got 'MKLDNN'"),
    ],
)
def test_bad_input_is_named(act: Any, words: str) -> None:
    net, x = changed_net()
    with pytest.raises(MXNetError, match=words) as caught:
        act(net)
    assert isinstance(caught.value, (ValueError, TypeError, NotImplementedError))
    assert net(x).asscalar() == 3


def test_a_block_without_forward_says_so() -> None:
    class Empty(gluon.HybridBlock):
        pass

    with pytest.raises(NotImplementedError, match="Empty defines neither hybrid_forward nor"):
        Empty()(nd.ones((1,)))
    with pytest.raises(NotImplementedError, match="Block does not define forward"):
        gluon.Block()(nd.ones((1,)))


def test_a_hybridized_call_adds_little_python() -> None:
    """A call of the network runs few functions before the compiled graph's own."""
    net, x = changed_net()
    assert net._compilation.fast is not None
    functions: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            functions.append(frame.f_code.co_name)
        elif event == "c_call":
            functions.append(argument.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    net(x)
    sys.setprofile(before)
    functions.pop()  # sys.setprofile
    assert functions[0] == "__call__" and len(functions) <= 3, functions


class Chosen(gluon.HybridBlock):
    """Takes its inputs out of dicts before the compiled part, as losses of Sockeye do."""

    def __init__(self):
        super().__init__()
        self.scale = self.params.get("scale", shape=(1,), init="ones")

    def forward(self, outputs, labels):
        if isinstance(outputs, float):
            return outputs - labels
        return super().forward(outputs["out"], labels["label"])

    def hybrid_forward(self, F, out, label, scale):
        return F.broadcast_mul(out, scale) - label


def test_a_forward_of_its_own_takes_dicts_and_numbers():
    net = ready(Chosen(), hybridize=True)
    assert net(5.0, 3) == 2.0
    loss = recorded(lambda: net({"out": nd.array([3, 4])}, {"label": nd.array([1, 1])}))
    assert loss.asnumpy().tolist() == [2, 3]
    assert net.scale.grad().asscalar() == 7
    plain = ready(nn.Dense(2, in_units=2), hybridize=True)
    assert_raises_regex(ValueError, "3 of type int", plain, 3)


def test_a_forward_of_its_own_is_called_by_its_name():
    class Doubled(gluon.HybridBlock):
        def forward(self, x):
            return super().forward(2 * x)

        def hybrid_forward(self, F, x):
            return x + 1

    net = Doubled()
    x = nd.array([1, 2])
    for _ in range(2):
        assert net(x).asnumpy().tolist() == net.forward(x).asnumpy().tolist() == [3, 5]
        net.hybridize()
