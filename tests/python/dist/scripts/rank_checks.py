"""Checks that the programs of all ranks share."""

import functools
import time

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np


def in_step():
    """The next calls of all ranks match."""
    size = hvd.size()
    assert hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum, name="step").asnumpy().tolist() == [size] * 2
    assert mx.nd.contrib.all_reduce(mx.nd.ones((2,))).asnumpy().tolist() == [size] * 2


def fails(what, *words, kind=mx.MXNetError, seconds=20, after=None):
    """Check that a call, or an array that it returns, raises an error with these words in time."""
    begin = time.monotonic()
    try:
        result = what()
        for array in result if isinstance(result, (list, tuple)) else [result]:
            if array is not None:
                array.wait_to_read()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
    else:
        raise AssertionError(f"no error with {words}")
    assert time.monotonic() - begin < seconds, "waited for the timeout"
    if after is not None:
        after()


def refused(what, *words, kind=mx.MXNetError):
    """Check that a call fails on this rank and that the job continues."""
    fails(what, *words, kind=kind, after=in_step)


invalid = functools.partial(refused, kind=ValueError)


def pulled(store, key, shape=(2,), dtype="float32"):
    """Return the value of a key."""
    out = mx.nd.full(shape, -7, dtype=dtype)
    store.pull(key, out=out)
    return out


def rounded(gradient, residual, kind, threshold):
    """Return what is sent of a gradient; changes the residual."""
    residual += gradient
    limit = np.float32(threshold)
    if kind == "2bit":
        sent = np.where(residual >= limit, limit, np.where(residual <= -limit, -limit, 0))
    else:
        sent = np.where(residual > limit, 1, -1)
    sent = sent.astype("float32")
    residual -= sent
    return sent


def gradients(block):
    """Return the gradients of a block or pipeline."""
    params = block.collect_params().values()
    return [p.grad().asnumpy() for p in params if p.grad_req != "null"]


def weights(block):
    """Return the values of a block or pipeline."""
    return [p.data().asnumpy() for p in block.collect_params().values()]


def agree(found, expected, rtol=1e-5, atol=0.0, what=""):
    """Compare two lists of arrays within tolerances."""
    found, expected = list(found), list(expected)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected):
        mine, theirs = (a.asnumpy() if isinstance(a, mx.nd.NDArray) else a for a in (mine, theirs))
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol, err_msg=what)


def equal(found, expected, what=""):
    """Compare all bits of two lists of NumPy arrays."""
    assert len(found) == len(expected), what
    for mine, theirs in zip(found, expected):
        assert mine.tobytes() == theirs.tobytes(), what
