"""Wrong input: the fitting builtin, always an MXNetError that says what was given and expected."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd


def ones(*shape, **kwargs):
    return nd.ones(shape, **kwargs)


X = ones(2, 3)

CASES = {
    # shapes
    "broadcast": (lambda: X + ones(4, 5), ValueError, r"broadcast_add.*\(2, 3\).*\(4, 5\)"),
    "product": (lambda: nd.dot(X, X), ValueError, r"dot.*\(2, 3\).*\(2, 3\)"),
    "dimensions": (
        lambda: nd.Convolution(X, X, X, kernel=(3, 3), num_filter=2),
        ValueError,
        r"Convolution: data must have 3 to 5 dimensions .*, got 2 in shape \(2, 3\)",
    ),
    "weight": (
        lambda: nd.FullyConnected(X, ones(4, 5), no_bias=True, num_hidden=4),
        ValueError,
        r"FullyConnected.*\(4, 5\)",
    ),
    "negative": (lambda: nd.zeros((-2, 3)), ValueError, r"\(-2, 3\)"),
    "reshape": (lambda: X.reshape((4, 4)), ValueError, r"\(2, 3\)"),
    "real sizes": (lambda: X.reshape((6 / 2, 2)), TypeError, r"ints, got \(3\.0, 2\.0\)"),
    "real size": (lambda: nd.zeros(shape=2.0), TypeError, r"ints, got 2\.0"),
    "two unknown": (lambda: nd.reshape(X, shape=(-1, -1)), ValueError, r"Reshape.*\(-1, -1\)"),
    "out": (
        lambda: nd.exp(X, out=ones(3, 3)),
        ValueError,
        r"exp: out must .*\(2, 3\), got \(3, 3\)",
    ),
    "kernel": (lambda: nd.Pooling(ones(1, 1, 2, 2), kernel=(5, 5)), ValueError, "Pooling.*5"),
    "concat": (lambda: nd.concat(X, ones(3, 4), dim=0), ValueError, r"(?i)concat.*\(3, 4\)"),
    # dtypes
    "unknown dtype": (lambda: nd.zeros((2,), dtype="float33"), ValueError, "dtype.*float33"),
    "no dtype of ours": (lambda: nd.array([1], dtype="complex64"), TypeError, "complex64"),
    "two dtypes": (lambda: nd.dot(X, ones(3, 2, dtype="int32")), TypeError, "dot.*float32.*int32"),
    # devices
    "device": (lambda: nd.ones((2,), ctx="tpu"), mx.MXNetError, "cpu.*'tpu'"),
    "context": (lambda: mx.Context("tpu"), mx.MXNetError, "cpu.*'tpu'"),
    # parameters and arguments of operators
    "enum": (lambda: nd.Activation(X, act_type="rleu"), ValueError, "Activation.*'relu'.*'rleu'"),
    "shape text": (lambda: nd.zeros("ab"), (TypeError, ValueError), "shape.*'ab'"),
    "no output": (lambda: nd.exp(X, out=3), TypeError, "exp: out must be .*, got int"),
    "optional input": (
        lambda: nd.softmax(X, [1, 2]),
        TypeError,
        "softmax: length must be .*, got list",
    ),
    "operator": (lambda: mx._core.op("sofmax"), ValueError, "'sofmax'.*'[sS]oftmax'"),
    # memory
    "huge": (lambda: nd.zeros((1 << 44,)), MemoryError, "70368744177664 bytes"),
    "overflow": (lambda: nd.zeros((1 << 62, 4)), MemoryError, r"\(4611686018427387904, 4\)"),
    # names in registries
    "metric": (lambda: mx.metric.create("acuracy"), ValueError, "'acuracy'.*'accuracy'"),
    "network": (
        lambda: mx.gluon.model_zoo.vision.get_model("resnet51_v1"),
        ValueError,
        "'resnet51_v1'.*'resnet50_v1'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_an_error_that_names_it_and_the_process_lives_on(name):
    act, kind, match = CASES[name]
    with pytest.raises(kind, match=match) as info:
        act()
    assert isinstance(info.value, mx.MXNetError)
    np.testing.assert_array_equal((X + 1).asnumpy(), np.full((2, 3), 2))


@pytest.mark.parametrize(
    "module, name, near",
    [(nd, "sofmax", "softmax"), (nd.contrib, "boolen_mask", "boolean_mask"), (mx, "ndd", "nd")],
)
def test_an_unknown_name_of_a_module_suggests_near_ones(module, name, near):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean '{near}'"):
        getattr(module, name)
    assert not hasattr(module, name)


def test_every_error_class_is_an_mxnet_error_and_a_builtin():
    pairs = {
        "ShapeError": ValueError,
        "DTypeError": TypeError,
        "IndexError_": IndexError,
        "ValueError_": ValueError,
        "TypeError_": TypeError,
        "OutOfMemoryError": MemoryError,
        "RecordError": OSError,
        "NotSupportedError": NotImplementedError,
        "MissingFileError": FileNotFoundError,
    }
    for name, builtin in pairs.items():
        assert issubclass(getattr(mx.base, name), mx.MXNetError)
        assert issubclass(getattr(mx.base, name), builtin)
    assert mx.MXNetError is mx.base.MXNetError


@pytest.mark.parametrize("call", [nd.elemwise_add, nd.broadcast_mul])
@pytest.mark.parametrize("pair", [[X, X], [mx.sym.var("a"), mx.sym.var("b")]])
def test_keywords_of_operators_without_parameters_are_ignored_with_a_warning(call, pair):
    with pytest.warns(UserWarning, match="'axis' is ignored, the operator has no parameters"):
        call(*pair, axis=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'rhss'"):
        call(pair[0], rhss=pair[1])


@pytest.mark.parametrize("make", [nd.array, nd.zeros, nd.ones, lambda none: nd.full(none, 1.0)])
def test_no_array_is_made_of_none(make):
    with pytest.raises(TypeError, match="None$|got None") as caught:
        make(None)
    assert isinstance(caught.value, mx.base.MXNetError)


@pytest.mark.parametrize("name", ["maximum", "minimum", "logical_and", "logical_or", "logical_xor"])
def test_none_is_no_operand(name):
    function = getattr(nd, name)
    for operands in ((X, None), (None, X), (None, 1), (None, None)):
        with pytest.raises(TypeError, match=f"{name}: operands must be .*NoneType"):
            function(*operands)


def test_an_axis_without_elements_has_no_places_for_indices() -> None:
    some, none = mx.nd.zeros((2, 3)), mx.nd.zeros((2, 0))
    with pytest.raises(ValueError, match=r"_take_along_axis: axis 1 of data of shape \(2, 0\)"):
        mx.nd._internal._take_along_axis(none, some, axis=1)
    with pytest.raises(
        ValueError, match=r"_put_along_axis: axis 1 of shape \(2, 0\) has no elements"
    ):
        mx.nd._internal._put_along_axis(some, some, shape=(2, 0), axis=1)
    assert mx.nd._internal._take_along_axis(none, none, axis=1).shape == (2, 0)
