"""Errors of work that runs later: they stay with the value and name the op, shapes and call."""

from __future__ import annotations

from inspect import currentframe

import mxlite as mx
import numpy as np
import pytest
from custom_ops import quiet_engine  # noqa: F401
from mxlite import autograd, nd
from processes import run_program
from recording import variable

fail = nd._internal._raise_async
MATCH = "_raise_async: fails by design"


WAITS = [
    lambda x: x.asnumpy(),
    lambda x: x.wait_to_read(),
    lambda x: x.sum().asscalar(),
    lambda x: np.asarray(x),
    lambda x: str(x),
    lambda x: x.__dlpack__(),
]


@pytest.mark.parametrize("wait", WAITS)
def test_every_wait_raises_again(wait):
    x = fail(nd.ones((2, 3)))
    for _ in range(3):
        with pytest.raises(ValueError, match=MATCH) as info:
            wait(x)
        assert isinstance(info.value, mx.MXNetError)


def test_waitall_raises_what_nobody_has_seen_and_then_is_quiet():
    x = fail(nd.ones((2,)))
    with pytest.raises(mx.MXNetError, match=MATCH):
        nd.waitall()
    nd.waitall()
    with pytest.raises(mx.MXNetError, match=MATCH):
        x.asnumpy()


def test_one_failure_told_is_enough_for_waitall():
    x, y = fail(nd.ones((2,))), fail(nd.ones((3,)))
    with pytest.raises(mx.MXNetError, match=MATCH):
        y.asnumpy()
    nd.waitall()  # x failed before y, and reading it raises the failure
    with pytest.raises(mx.MXNetError, match=MATCH):
        x.asnumpy()
    z = fail(nd.ones((4,)))
    with pytest.raises(mx.MXNetError, match=MATCH):
        nd.waitall()
    assert z.shape == (4,)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: nd.random.normal(0, -1, (2, 2)), "random_normal: .*, got loc 0 and scale -1"),
        (lambda: nd.random.uniform(2, 1, (2, 2)), "random_uniform: .*, got low 2 and high 1"),
        (lambda: nd.random.poisson(-1, (2, 2)), "random_poisson: .*, got lam -1"),
        (lambda: nd.random.normal_like(nd.ones((2, 2)), 0, -2), "_random_normal_like: .*scale -2"),
    ],
)
def test_parameters_of_draws_are_looked_at_when_they_run(draw, words):
    x = draw()
    assert x.shape == (2, 2)
    with pytest.raises(ValueError, match=words):
        nd.dot(x, nd.ones((2, 2))).asnumpy()


def test_the_message_names_op_shapes_and_the_line_of_the_call():
    data = nd.ones((2, 3))
    line = currentframe().f_lineno + 1
    x = fail(data)
    with pytest.raises(mx.MXNetError) as info:
        x.asnumpy()
    text = str(info.value)
    assert "_raise_async(float32(2, 3))" in text
    assert f"test_async_errors.py:{line}" in text


def test_every_call_has_its_own_line():
    # Functions come and go, so that addresses of their code are used again.
    for first in [*range(1, 300), 1, 2]:
        scope = {"fail": fail, "x": nd.ones(2)}
        source = (
            "\n" * (first - 1) + "made = []\nfor i in range(2):\n made += [fail(x)]\nz = fail(x)"
        )
        exec(compile(source, "generated.py", "exec"), scope)
        for value, line in [
            *((made, first + 2) for made in scope["made"]),
            (scope["z"], first + 3),
        ]:
            with pytest.raises(mx.MXNetError, match=rf"generated\.py:{line}\b"):
                value.asnumpy()


def test_results_computed_from_a_failed_value_fail_with_the_first_cause():
    x = fail(nd.ones((2, 3)))
    y = nd.dot(x + 1, nd.ones((3, 4))).sum()
    with pytest.raises(mx.MXNetError, match=MATCH) as info:
        y.asscalar()
    assert "dot" not in str(info.value).split("\n")[0]


def test_overwriting_an_array_clears_its_error_and_its_input_has_none():
    data = nd.ones((4,))
    x = fail(data)
    np.testing.assert_array_equal(data.asnumpy(), np.ones(4))
    x[:] = 5
    np.testing.assert_array_equal(x.asnumpy(), [5, 5, 5, 5])


def test_the_first_of_several_errors_is_raised():
    shapes = [(2,), (3,)]
    first, second = (fail(nd.ones(s)) for s in shapes)
    with pytest.raises(mx.MXNetError, match=r"float32\(2\)|float32\(2,\)"):
        (first.sum() + second.sum()).asscalar()


def test_an_error_inside_record_reaches_the_gradient_s_reader_and_recording_ends():
    x = variable(nd.ones((3,)))
    with autograd.record():
        y = (x * fail(nd.ones((3,)))).sum()
    assert not autograd.is_recording()
    with pytest.raises(mx.MXNetError, match=MATCH):
        y.backward()
        x.grad.asnumpy()


def test_a_thousand_failures_leave_the_engine_working():
    for _ in range(1000):
        fail(nd.ones((2,)))
    with pytest.raises(mx.MXNetError, match=MATCH):
        nd.waitall()
    x = nd.zeros((100, 100))
    for _ in range(100):
        x = nd.dot(x, x) + 1
    assert nd.ones((2,)).sum().asscalar() == 2


@pytest.mark.parametrize("env", [{"MXLITE_ENGINE": "naive"}, {"MXNET_ENGINE_TYPE": "NaiveEngine"}])
def test_the_naive_engine_raises_in_the_call(env):
    done = run_program(
        """
        import mxlite as mx
        x = mx.nd.ones((2, 3))
        try:
            mx.nd._internal._raise_async(x)
        except ValueError as error:
            print(error)
        else:
            print("no error in the call")
        """,
        **env,
    )
    assert "_raise_async: fails by design" in done.stdout


@pytest.mark.parametrize("code", ["", "mx.nd._internal._raise_async(x)", "raise SystemExit(7)"])
def test_the_process_ends_cleanly_with_work_in_flight(code):
    text = """
        import sys
        import mxlite as mx
        x = mx.nd.ones((300, 300))
        for _ in range(100):
            y = mx.nd.dot(x, x)
        exec(sys.argv[1])
        """
    done = run_program(text, code, code=7 if "SystemExit" in code else 0)
    assert "Traceback" not in done.stderr
    assert "terminate" not in done.stderr


def test_a_forked_child_computes_and_the_parent_goes_on():
    done = run_program(
        """
        import os
        import mxlite as mx
        x = mx.nd.ones((200, 200))
        y = mx.nd.dot(x, x)
        mx.nd.waitall()
        child = os.fork()
        if child == 0:
            good = mx.nd.dot(x, x).sum().asscalar() == 200**3 and y[0, 0].asscalar() == 200
            os._exit(0 if good else 1)
        print(os.waitpid(child, 0)[1], mx.nd.dot(x, y).sum().asscalar())
        """
    )
    status, total = done.stdout.split()
    assert int(status) == 0
    assert float(total) == 200.0**4


def test_the_repr_of_a_failed_array_says_so():
    x = fail(nd.ones((2, 3)))
    text = repr([x])
    assert "<NDArray 2x3 @cpu(0), failed: " in text and MATCH in text
    with pytest.raises(mx.MXNetError, match=MATCH):
        str(x)


def test_a_value_under_way_at_the_fork_is_an_error_in_the_child_only():
    done = run_program(
        """
        import os
        import mxlite as mx
        x = mx.nd.ones((500, 500))
        mx.nd.waitall()
        y = x
        for _ in range(60):
            y = mx.nd.dot(y, x) / 500
        child = os.fork()
        if child == 0:
            try:
                y.asnumpy()
            except mx.MXNetError as error:
                good = "forked" in str(error) and mx.nd.dot(x, x)[0, 0].asscalar() == 500
                os._exit(0 if good else 1)
            os._exit(2)
        print(os.waitpid(child, 0)[1], y[0, 0].asscalar())
        """
    )
    status, value = done.stdout.split()
    assert int(status) == 0
    assert float(value) == pytest.approx(1)


def test_a_pool_whose_function_returns_a_failed_array_raises():
    done = run_program(
        """
        import multiprocessing
        import mxlite as mx

        def work(i):
            return mx.nd._internal._raise_async(mx.nd.ones((2,)))

        with multiprocessing.get_context("fork").Pool(1) as pool:
            try:
                pool.map_async(work, [0]).get(timeout=60)
            except multiprocessing.pool.MaybeEncodingError as error:
                print(error)
        """
    )
    assert MATCH in done.stdout and "failed: " in done.stdout
