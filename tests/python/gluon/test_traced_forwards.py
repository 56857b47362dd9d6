"""Traced forwards that stop gradients, change modes, read or write values, or change attributes."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready
from mxlite import autograd, gluon, nd
from mxlite.base import MXNetError
from mxlite.gluon import nn
from mxlite.gluon.parameter.bindings import PROCESS


def detached(F: Any, x: Any) -> Any:  # noqa: N803
    return F.exp(x).detach() * x


def paused(F: Any, x: Any) -> Any:  # noqa: N803
    with autograd.pause():
        factor = F.exp(x)
    return factor * x


class Exp(mx.operator.CustomOp):
    """exp(x) outside of training, else NaN."""

    def forward(
        self,
        is_train: bool,
        req: list[str],
        in_data: list[Any],
        out_data: list[Any],
        aux: list[Any],
    ) -> None:
        self.assign(out_data[0], req[0], nd.exp(in_data[0]) * (float("nan") if is_train else 1))

    def backward(
        self,
        req: list[str],
        out_grad: list[Any],
        in_data: list[Any],
        out_data: list[Any],
        in_grad: list[Any],
        aux: list[Any],
    ) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * out_data[0])


@mx.operator.register("exp_outside_of_training")
class ExpProp(mx.operator.CustomOpProp):
    """Describes Exp."""

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Exp:
        return Exp()


def paused_custom(F: Any, x: Any) -> Any:  # noqa: N803
    with autograd.pause():
        factor = F.Custom(x, op_type="exp_outside_of_training")
    return factor * x


def in_prediction(F: Any, x: Any) -> Any:  # noqa: N803
    with autograd.predict_mode():
        return F.Dropout(x, p=0.99) * x


def in_training(F: Any, x: Any) -> Any:  # noqa: N803
    with autograd.train_mode():
        return F.Dropout(x * 0, p=0.99) + x


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("own_forward", [False, True], ids=["hybrid_forward", "forward"])
@pytest.mark.parametrize("function", [detached, paused, paused_custom, in_prediction, in_training])
def test_gradients_stop_and_modes_change_inside_of_forward(
    function: Any, own_forward: bool, hybrid: bool
) -> None:
    class Net(gluon.HybridBlock):
        if own_forward:

            def forward(self, x: Any) -> Any:
                return function(nd, x)

        else:

            def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
                return function(F, x)

    net = ready(Net(), hybridize=hybrid)
    x = nd.array([1, 2])
    x.attach_grad()
    values = {in_prediction: x * x, in_training: x}.get(function, x * nd.exp(x))
    slopes = {in_prediction: 2 * x, in_training: x * 0 + 1}.get(function, nd.exp(x))
    for train_mode in (False, True, False):
        np.testing.assert_allclose(net(x).asnumpy(), values.asnumpy(), rtol=1e-6)
        with autograd.record(train_mode):
            y = net(x)
        y.backward()
        np.testing.assert_allclose(y.asnumpy(), values.asnumpy(), rtol=1e-6)
        np.testing.assert_allclose(x.grad.asnumpy(), slopes.asnumpy(), rtol=1e-6)


def reading(x: Any) -> Any:
    return x * 2 if x.sum().asscalar() > 0 else -x


def writing(x: Any) -> Any:
    with autograd.pause():
        mask = x * 0 + 2
        mask[1:] = 2
    return x * mask


def writing_out(x: Any) -> Any:
    total = nd.zeros((2,))
    nd.broadcast_mul(x, nd.array([2, 2]), out=total)
    return total


def recording_inside(x: Any) -> Any:
    y = x.detach()
    y.attach_grad()
    with autograd.record():
        z = (y * y).sum()
    z.backward()
    return x * (y.grad == 2 * y) * 2


@pytest.mark.parametrize("function", [reading, writing, writing_out, recording_inside])
def test_a_forward_of_its_own_runs_eagerly_if_it_cannot_be_traced(function: Any) -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Dense(2, use_bias=False)

        def forward(self, x: Any) -> Any:
            return self.inner(function(x).reshape((1, 2)))

    class Same(Net):
        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            return self.inner(function(x).reshape((1, 2)))

        forward = gluon.HybridBlock.forward

    net = ready(Net(), "ones", hybridize=True)
    x = nd.array([1, 2])
    x.attach_grad()
    for i in range(3):
        with autograd.record(), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            y = net(x)
        y.backward()
        assert y.asnumpy().tolist() == [[6, 6]] and x.grad.asnumpy().tolist() == [4, 4]
        assert [w.filename for w in seen] == [__file__] * (i == 0)
        assert all("operator by operator" in str(w.message) for w in seen)
    with pytest.raises(MXNetError, match="in Same 'same"):
        ready(Same(), "ones", hybridize=True)(x)


def test_a_forward_of_its_own_may_set_its_weights() -> None:
    class Doubling(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Dense(1, use_bias=False)

        def forward(self, x: Any) -> Any:
            y = self.inner(x)
            self.inner.weight.set_data(2 * self.inner.weight.data())
            return y

    net = ready(Doubling(), "ones", hybridize=True)
    with pytest.warns(UserWarning, match="operator by operator"):
        assert net(nd.array([[1, 2]])).asscalar() == 3
    assert [net(nd.array([[1, 2]])).asscalar() for _ in range(2)] == [6, 12]


def test_an_error_of_a_forward_of_its_own_is_that_of_the_eager_block() -> None:
    class Net(gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            if x.shape[0] == 1:
                raise KeyError("one row")
            return 2 * x

    net = ready(Net(), hybridize=True)
    with pytest.raises(KeyError, match="one row"):
        net(nd.ones((1, 2)))
    assert net(nd.ones((2, 1))).asnumpy().tolist() == [[2], [2]]
    with pytest.raises(KeyError, match="one row"):
        net(nd.ones((1, 2)))
    assert net._compilation.dynamic is None


def test_a_forward_of_its_own_may_change_attributes() -> None:
    class Counting(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.inner = nn.Dense(2, use_bias=False)

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.last = self.inner(x)
            return self.last * self.calls

    net = ready(Counting(), "ones", hybridize=True)
    x = nd.array([[1, 2]])
    for calls in (1, 2, 3):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert net(x).asnumpy().tolist() == [[3 * calls] * 2]
        assert net.calls == calls and net.last.asnumpy().tolist() == [[3, 3]]
        assert [".calls, " in str(w.message) for w in seen] == [True] * (calls == 2)


def test_a_forward_of_its_own_may_delete_attributes() -> None:
    class Once(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.factor = 10

        def forward(self, x: Any) -> Any:
            if not hasattr(self, "factor"):
                return x
            y = x * self.factor
            del self.factor
            return y

    net = ready(Once(), hybridize=True)
    assert [net(nd.ones((1,))).asscalar() for _ in range(3)] == [10, 1, 1]
    assert net._compilation.graphs


@pytest.mark.parametrize("calls", [1, 2])
def test_a_forward_that_keeps_a_result_can_be_exported(calls: int, tmp_path: Path) -> None:
    class Attention(gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            self.weights = nd.softmax(x)
            return self.weights * x

    net, x = ready(Attention(), hybridize=True), nd.array([[1, 2]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [net(x).asnumpy() for _ in range(calls)][-1]
    net.export(str(tmp_path / "net"))
    found = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])(x)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("generator", [random, np.random], ids=["random", "numpy"])
def test_a_forward_of_its_own_may_draw_from_other_random_numbers(generator: Any) -> None:
    class Drawing(gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return x * generator.random()

    net, x = Drawing(), nd.ones((1,))
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        generator.seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append([net(x).asscalar() for _ in range(4)])
    assert found[0] == found[1] and len(set(found[0])) == 4


def test_what_the_first_forward_makes_does_not_keep_later_ones_from_being_traced() -> None:
    class Lazy(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.scale: Any = None

        def forward(self, x: Any) -> Any:
            if self.scale is None:
                self.scale = nd.arange(x.shape[1])
            return x * self.scale

    net = ready(Lazy(), hybridize=True)
    for _ in range(3):
        assert net(nd.array([[1, 2]])).asnumpy().tolist() == [[0, 2]]
    assert net._compilation.graphs and net._compilation.dynamic is None


@pytest.mark.parametrize("inner", [False, True], ids=["root", "child"])
def test_a_forward_of_its_own_reads_attributes_that_change_between_calls(inner: bool) -> None:
    class Scaled(gluon.HybridBlock):
        scale = 1

        def forward(self, x: Any) -> Any:
            return x * self.scale

    class Outer(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.body = Scaled()

        def forward(self, x: Any) -> Any:
            return self.body(x) * 10

    net = Outer() if inner else Scaled()
    changed, factor = (net.body, 10) if inner else (net, 1)
    net.hybridize()
    assert net(nd.ones((1,))).asscalar() == factor
    for scale in (2, 2, 3, 1):
        changed.scale = scale
        assert net(nd.ones((1,))).asscalar() == scale * factor
    assert net._compilation.graphs
    with pytest.warns(UserWarning, match="attributes change between calls"):
        for scale in (7, 8, 9):
            changed.scale = scale
            assert net(nd.ones((1,))).asscalar() == scale * factor
    assert net._compilation.dynamic


def test_a_checkpointed_forward_of_its_own_keeps_its_graph() -> None:
    class Doubled(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Dense(2)

        def forward(self, x: Any) -> Any:
            return self.inner(x) * 2

    net = ready(Doubled(), hybridize=True).checkpoint()
    graphs = []
    for _ in range(3):
        with autograd.record():
            net(nd.ones((1, 2))).backward()
        graphs.append(list(net._compilation.graphs.values()))
    assert graphs[0] and graphs[0] == graphs[1] == graphs[2]


def test_a_change_of_attributes_counts_once_for_all_graphs() -> None:
    class Scaled(gluon.HybridBlock):
        scale = 1

        def forward(self, x: Any) -> Any:
            return nd.add_n(*x) * self.scale if isinstance(x, list) else x * self.scale

    net, x = ready(Scaled(), hybridize=True), nd.ones((1,))
    for scale in (1, 2, 3, 4, 5):
        net.scale = scale
        assert [net(each).asscalar() for each in (x, [x, x], [x, x, x])] == [
            scale, 2 * scale, 3 * scale,
        ]  # fmt: skip
    assert len(net._compilation.graphs) == 3


def test_other_reasons_to_trace_again_do_not_count_as_changes_of_attributes() -> None:
    class Doubled(gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return x * 2

    net = ready(Doubled(), hybridize=True)
    for _ in range(6):
        assert net(nd.ones((1,))).asscalar() == 2
        PROCESS.expire(retrace=True)  # as after a change of the job's size
    assert net._compilation.graphs


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("training", [False, True])
def test_shapes_are_found_behind_a_change_of_the_mode(training: bool, hybrid: bool) -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.params.get("weight", shape=(3, 0), allow_deferred_init=True)

        def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # noqa: N803
            with autograd.predict_mode() if training else autograd.train_mode():
                y = F.Dropout(x, p=0.99)
            return F.FullyConnected(y, weight, no_bias=True, num_hidden=3)

    net = ready(Net(), "ones", hybridize=hybrid)
    with autograd.record(train_mode=training):
        y = net(nd.ones((1, 2)))
    assert net.weight.shape == (3, 2)
    assert (y.asnumpy() == 2).all() == training
