"""Operators written in Python: values, gradients, states, threads, errors."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import mxlite as mx
import numpy as np
import pytest
from custom_ops import custom, quiet_engine  # noqa: F401
from mxlite import autograd, gluon, nd
from mxlite.operator import CustomOp, CustomOpProp, register
from numpy.testing import assert_allclose, assert_array_equal
from pairing import assert_all_close
from processes import run_program
from recording import differentiated, variable


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_and_gradient(dtype):
    x = nd.array([[-1.0, 0.0, 2.0]], dtype=dtype)
    y = differentiated(lambda x: nd.Custom(x, op_type="t_sigmoid") * 3, x)
    expected = 1 / (1 + np.exp(-x.asnumpy()))
    assert y.dtype == np.dtype(dtype).type
    assert_allclose(y.asnumpy(), 3 * expected, rtol=1e-6)
    assert_allclose(x.grad.asnumpy(), 3 * expected * (1 - expected), rtol=1e-6)


def test_all_ways_to_name_the_input_and_the_output():
    x, out = nd.ones((2,)), nd.zeros((2,))
    assert nd.op.Custom is nd.Custom
    by_name = nd.Custom(data=x, op_type="t_sigmoid", name="s")
    same = nd.Custom(x, op_type="t_sigmoid", out=out)
    assert same is out
    assert_array_equal(out.asnumpy(), by_name.asnumpy())


def test_a_strided_input_and_an_empty_one():
    x = nd.array(np.arange(6, dtype=np.float32).reshape(2, 3)).T
    assert_allclose(
        nd.Custom(x, op_type="t_sigmoid").asnumpy(), 1 / (1 + np.exp(-x.asnumpy())), rtol=1e-6
    )
    assert nd.Custom(nd.zeros((0, 3)), op_type="t_sigmoid").shape == (0, 3)


@register("t_affine")
class Affine(CustomOpProp):
    """Two inputs, two outputs of different types, parameters, a state that counts calls."""

    def __init__(self, scale, half="False"):
        super().__init__()
        assert isinstance(scale, str)
        assert isinstance(half, str)
        self.scale, self.half = float(scale), half == "True"

    def list_arguments(self):
        return ["x", "y"]

    def list_outputs(self):
        return ["sum", "count"]

    def list_auxiliary_states(self):
        return ["calls"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0], [1]], [[1]]

    def infer_type(self, in_type):
        return in_type, [in_type[0], np.int64], [np.int64]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        assert ctx == mx.cpu()
        assert in_shapes == [[2], [2]]
        assert in_dtypes == [np.float32] * 2
        return AffineOp(self.scale)


class AffineOp(CustomOp):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] += 1
        self.training = is_train
        self.assign(out_data[0], req[0], self.scale * in_data[0] + in_data[1])
        self.assign(out_data[1], req[1], aux[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        assert self.training  # the object of this call's forward
        aux[0][:] += 10
        self.requests = req
        self.assign(in_grad[0], req[0], self.scale * out_grad[0])
        self.assign(in_grad[1], req[1], out_grad[0])


def test_several_outputs_parameters_and_states():
    x, y, calls = nd.array([1.0, 2.0]), nd.array([10.0, 20.0]), nd.zeros((1,), dtype="int64")
    x.attach_grad()
    y.attach_grad(grad_req="add")
    for step in (1, 2):
        with autograd.record():
            total, count = nd.Custom(x, y, calls, scale=2.5, half=True, op_type="t_affine")
        assert_array_equal(total.asnumpy(), [12.5, 25])
        assert count.dtype == np.int64
        total.backward(nd.array([1.0, 2.0]))
        assert_array_equal(x.grad.asnumpy(), [2.5, 5])
        assert_array_equal(y.grad.asnumpy(), [1.0 * step, 2.0 * step])
        assert calls.asscalar() == 11 * step


class Watched(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.before = gluon.nn.Dense(2, in_units=3)
        self.behind = gluon.nn.Dense(4, in_units=2)
        self.calls = self.params.get(
            "calls", shape=(1,), init="zeros", dtype="int64", grad_req="null"
        )

    def hybrid_forward(self, F, x, calls):  # noqa: N803
        h = F.Custom(
            self.before(x).reshape((-1,)), F.ones((2,)), calls, scale=3, op_type="t_affine"
        )
        h = F.Custom(h[0].reshape((1, 2)), op_type="t_sigmoid")
        return self.behind(h)


def test_inside_a_hybridized_block_as_eagerly():
    x = nd.array([[1.0, -2.0, 0.5]])
    results = []
    for hybrid in (False, True):
        mx.random.seed(3)
        net = Watched()
        net.initialize(mx.init.Xavier())
        net.hybridize(hybrid)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        for _ in range(2):
            differentiated(lambda net=net: (net(x) ** 2).sum())
            trainer.step(1)
        result = net(x).asnumpy()
        results.append([result, *(p.data().asnumpy() for p in net.collect_params().values())])
    assert_all_close(*results, rtol=1e-5)
    assert net.calls.data().asscalar() == 2 * 11 + 1


def test_infer_shape_completes_parameters():
    def infer(self, in_shape):
        return [in_shape[0], [in_shape[0][1]]], [in_shape[0]], []

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * in_data[1].reshape((1, -1)))

    custom("t_scale", forward, infer_shape=infer, list_arguments=lambda self: ["data", "weight"])

    class Scale(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get(
                "weight", shape=(0,), init="ones", allow_deferred_init=True
            )

        def hybrid_forward(self, F, x, weight):  # noqa: N803
            return F.Custom(x, weight, op_type="t_scale")

    for hybrid in (False, True):
        net = Scale()
        net.initialize()
        net.hybridize(hybrid)
        assert_array_equal(net(nd.ones((2, 3))).asnumpy(), np.ones((2, 3)))
        assert net.weight.shape == (3,)


def test_backward_gets_what_was_declared():
    seen = []

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] - in_data[1])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        seen.append([out_grad[0], *in_data, out_data[0]])
        seen.append(list(req))
        self.assign(in_grad[0], req[0], out_data[0])

    custom(
        "t_loss", forward, backward,
        __init__=lambda self: CustomOpProp.__init__(self, need_top_grad=False),
        list_arguments=lambda self: ["data", "label"],
        declare_backward_dependency=lambda self, out_grad, in_data, out_data: [out_data[0]],
    )  # fmt: skip
    x, label = nd.array([3.0, 4.0]), nd.array([1.0, 5.0])
    x.attach_grad()
    with autograd.record():
        loss = nd.Custom(x, label, op_type="t_loss")
    x[:] = 0  # backward did not ask for the inputs
    loss.backward()
    assert_array_equal(x.grad.asnumpy(), [2, -1])
    assert [array is None for array in seen[0]] == [True, True, True, False]
    assert seen[1] == ["write", "null"]


def test_an_input_overwritten_before_backward_is_an_anomaly():
    x = variable(nd.ones((2,)))
    with autograd.record():
        y = nd.Custom(x, op_type="t_sigmoid")
    x[:] = 2
    with (
        autograd.detect_anomaly(),
        pytest.raises(mx.MXNetError, match="input 0 of Custom.* was changed in place"),
    ):
        y.backward()


def test_outputs_nobody_used_have_zero_gradients():
    def forward(self, is_train, req, in_data, out_data, aux):
        for out, r in zip(out_data, req):
            self.assign(out, r, in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] + 10 * out_grad[1])

    custom("t_fork", forward, backward, list_outputs=lambda self: ["a", "b"])
    x = nd.ones((2,))
    differentiated(lambda x: nd.Custom(x, op_type="t_fork")[1], x)
    assert_array_equal(x.grad.asnumpy(), [10, 10])


def test_assign_follows_the_request():
    op, dst = CustomOp(), nd.ones((2,))
    for req, expected in [("null", 1), ("write", 5), ("add", 10), ("inplace", 5)]:
        op.assign(dst, req, nd.full((2,), 5))
        assert_array_equal(dst.asnumpy(), [expected] * 2)
    with pytest.raises(ValueError, match="req must be .*got 'other'"):
        op.assign(dst, "other", dst)


def test_modes_inside_the_callbacks():
    seen = []

    def forward(self, is_train, req, in_data, out_data, aux):
        seen.append((is_train, autograd.is_training(), autograd.is_recording()))
        out_data[0][:] = 1

    custom("t_modes", forward, lambda self, **_: seen.append(autograd.is_recording()))
    x = variable(nd.ones((1,)))
    nd.Custom(x, op_type="t_modes").wait_to_read()
    with autograd.record(train_mode=False):
        nd.Custom(x, op_type="t_modes").wait_to_read()
    differentiated(lambda: nd.Custom(x, op_type="t_modes"))
    x.grad.wait_to_read()
    assert seen == [(False, False, False), (False, False, False), (True, True, False), False]


def nested_forward(self, is_train, req, in_data, out_data, aux):
    x = variable(in_data[0].copy())
    with autograd.record():
        y = nd.Custom(x, op_type="t_sigmoid")
        y = nd.Custom(y, op_type="t_sigmoid")
    y.backward()
    nd.dot(nd.ones((300, 300)), nd.ones((300, 300))).wait_to_read()
    self.gradient = x.grad.asnumpy()
    self.assign(out_data[0], req[0], y.asnumpy())


def nested_backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    self.assign(in_grad[0], req[0], out_grad[0] * nd.array(self.gradient))


custom("t_nested", nested_forward, nested_backward)


def test_custom_operators_nest_with_autograd_inside():
    x = nd.array([0.5, -0.5])
    y = differentiated(lambda x: nd.Custom(x, op_type="t_nested"), x)
    gradient = x.grad.asnumpy()
    z = differentiated(
        lambda x: nd.Custom(nd.Custom(x, op_type="t_sigmoid"), op_type="t_sigmoid"), x
    )
    assert_allclose(y.asnumpy(), z.asnumpy(), rtol=1e-6)
    assert_allclose(gradient, x.grad.asnumpy(), rtol=1e-5)


def test_many_threads_call_custom_operators_at_once():
    def work(seed):
        x = nd.full((64, 64), seed / 10)
        for _ in range(20):
            y = differentiated(lambda x: nd.Custom(nd.dot(x, x) * 0, op_type="t_nested") + x, x)
        return y.asnumpy()[0, 0]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4), timeout=120))
    assert_allclose(results, 1 / (1 + np.exp(-0.5)) + np.arange(4) / 10, rtol=1e-5)


def test_forward_runs_after_the_call_and_reads_the_inputs_of_the_call():
    gate = threading.Event()

    def forward(self, is_train, req, in_data, out_data, aux):
        assert gate.wait(60)
        self.assign(out_data[0], req[0], in_data[0])

    custom("t_gate", forward)
    x = nd.ones((2,))
    y = nd.Custom(x, op_type="t_gate") + 1
    unrelated = nd.dot(nd.ones((200, 200)), nd.ones((200, 200)))
    assert unrelated.asnumpy()[0, 0] == 200  # the workers are not blocked
    threading.Timer(0.05, gate.set).start()
    x[:] = 7  # ordered after the operator's read
    assert_array_equal(y.asnumpy(), [2, 2])
    assert_array_equal(x.asnumpy(), [7, 7])


def test_operators_and_their_arguments_are_listed():
    assert "FullyConnected" in mx.operator.get_all_registered_operators()
    found = mx.operator.get_operator_arguments("FullyConnected")
    assert found.narg == len(found.names) == len(found.types)
    assert found.names[:3] == ["data", "weight", "bias"]
    assert found.types[2:5] == [
        "NDArray-or-Symbol",
        "int, required",
        "boolean, optional, default=False",
    ]
    found = mx.operator.get_operator_arguments("Activation")
    choices = "'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'"
    assert found.types == ["NDArray-or-Symbol", f"{{{choices}}}, required"]
    found = mx.operator.get_operator_arguments("Pooling")
    types = dict(zip(found.names, found.types))
    assert types["pool_type"] == "{'avg', 'lp', 'max', 'sum'}, optional, default='max'"
    assert types["stride"].startswith("Shape(tuple), optional, default=")


SCRIPT = """
import mxlite as mx
from mxlite import nd

@mx.operator.register("slow")
class Prop(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Op()

class Op(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        total = sum(nd.dot(in_data[0], in_data[0]).asnumpy()[0, 0] for _ in range(20))
        self.assign(out_data[0], req[0], in_data[0] + total)
        print("ran", flush=True)

x = nd.Custom(nd.ones((50, 50)), op_type="slow")
"""


@pytest.mark.parametrize("engine", ["naive", "threaded"])
def test_one_thread_and_exit_with_work_in_flight(engine):
    done = run_program(SCRIPT, MXLITE_ENGINE=engine, OMP_NUM_THREADS="1")
    assert done.stdout == "ran\n"


class Counting(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.count = self.params.get("count", shape=(1,), init="zeros")

    def hybrid_forward(self, F, x, count):  # noqa: N803
        return F.Custom(x, count, op_type="t_count_calls")


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_parameter_with_a_gradient_may_be_an_auxiliary_state(hybrid):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)
        aux[0][:] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2)

    states = {"list_auxiliary_states": lambda self: ["count"]}
    states["infer_shape"] = lambda self, in_shape: (in_shape, in_shape, [(1,)])
    custom("t_count_calls", forward, backward, **states)
    net = Counting()
    net.initialize()
    net.hybridize(hybrid)
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    x = nd.ones((2,))
    for calls in (1, 2, 3):
        differentiated(net, x)
        trainer.step(1)
        assert net.count.data().asscalar() == calls
        assert (x.grad.asnumpy().tolist(), net.count.grad().asscalar()) == ([2, 2], 0)


@pytest.mark.parametrize("engine", ["naive", "threaded"])
def test_ctrl_c_in_forward_stays_a_keyboard_interrupt(engine):
    """The naive engine runs the operator in the main thread, the other one does not."""
    text = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import mxlite as mx
class Interrupted(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        if in_data[0].asnumpy()[0] == 1:
            raise KeyboardInterrupt
        self.assign(out_data[0], req[0], in_data[0] + 1)
@mx.operator.register("interrupted_forward")
class InterruptedProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Interrupted()
def call(x):
    return mx.nd.Custom(x, op_type="interrupted_forward").asnumpy().tolist()
try:
    call(mx.nd.ones((2,)))
except KeyboardInterrupt:
    print("interrupted")
print(call(mx.nd.zeros((2,))))  # later calls are not affected
"""
    done = run_program(text, MXLITE_ENGINE=engine)
    assert done.stdout.splitlines() == ["interrupted", "[1.0, 1.0]"], done.stderr
