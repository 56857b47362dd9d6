"""Scopes belong to the thread that opened them; errors in one thread leave the others alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import mxlite as mx
import numpy as np
import pytest
from custom_ops import quiet_engine  # noqa: F401
from mxlite import autograd, nd

fail = nd._internal._raise_async


def in_thread(function):
    """Run in another thread; returns its result or raises its error."""
    with ThreadPoolExecutor() as pool:
        return pool.submit(function).result(60)


SCOPES = [
    (lambda: autograd.record(), autograd.is_recording, False, True),
    (lambda: autograd.train_mode(), autograd.is_training, False, True),
    (lambda: mx.cpu(3), lambda: mx.current_context().device_id, 0, 3),
    (lambda: mx.AttrScope(ctx_group="a"), lambda: mx.attribute.current().get(None),
     {}, {"ctx_group": "a"}),
    (lambda: mx.name.Prefix("p_"), lambda: mx.name.current().get("x", "x"), "x", "p_x"),
]  # fmt: skip


@pytest.mark.parametrize(("scope", "read", "outside", "inside"), SCOPES)
def test_a_scope_is_seen_by_its_thread_only(scope, read, outside, inside):
    with scope():
        assert read() == inside
        assert in_thread(read) == outside
    assert read() == outside

    def other():
        with scope():
            return read()

    assert in_thread(other) == inside
    with pytest.raises(ZeroDivisionError), scope():
        raise ZeroDivisionError
    assert read() == outside


def test_set_recording_and_set_training_return_the_old_state_of_this_thread():
    assert autograd.set_recording(True) is False
    assert in_thread(lambda: autograd.set_recording(False)) is False
    assert autograd.set_recording(is_recording=False) is True
    assert autograd.set_training(True) is False
    assert in_thread(lambda: autograd.set_training(True)) is False
    assert autograd.set_training(train_mode=False) is True


def test_what_one_thread_records_another_may_differentiate():
    x = nd.array([2.0, 3.0])
    x.attach_grad()

    def record():
        with autograd.record():
            return (x * x).sum()

    y = in_thread(record)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [4, 6])


def test_threads_differentiate_their_own_graphs_at_once():
    def work(factor):
        x = nd.array([1.0, 2.0])
        x.attach_grad()
        total = np.zeros(2)
        for _ in range(50):
            with autograd.record():
                y = (x * x * factor).sum()
            y.backward()
            total += x.grad.asnumpy()
        return total

    with ThreadPoolExecutor(3) as pool:
        for factor, total in zip((1, 2, 3), pool.map(work, (1, 2, 3))):
            np.testing.assert_array_equal(total, 50 * factor * np.array([2, 4]))


def test_an_error_is_raised_by_waits_in_every_thread():
    x = fail(nd.ones((2,)))
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="fails by design"):
            in_thread(x.asnumpy)
        with pytest.raises(mx.MXNetError, match="fails by design"), autograd.record():
            x.wait_to_read()
    assert not autograd.is_recording()
    in_thread(lambda: fail(nd.ones((2,))))
    with pytest.raises(mx.MXNetError, match="fails by design"):
        nd.waitall()
    nd.waitall()
    in_thread(nd.waitall)


def test_a_failed_gradient_does_not_touch_the_other_variable():
    x, z = nd.ones((2,)), nd.ones((2,))
    x.attach_grad()
    z.attach_grad()
    with autograd.record():
        y = x * fail(nd.ones((2,)))
        w = z * 5
    autograd.backward([y, w])
    np.testing.assert_array_equal(z.grad.asnumpy(), [5, 5])
    with pytest.raises(mx.MXNetError, match="fails by design"):
        x.grad.asnumpy()
    with autograd.record():
        y = x * 7
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [7, 7])
