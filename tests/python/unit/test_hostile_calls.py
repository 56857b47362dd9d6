"""Calls with impossible sizes: overflow, views outside of memory, ranges of parameters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from recording import differentiated

X = nd.ones((2, 3, 4, 4))
LARGE = 2**62
WIDE = 2**55
EMPTY = nd.zeros((0, WIDE, 4, 4))  # no element, but the largest dimensions that empty arrays have


@pytest.mark.parametrize(
    "act",
    [
        lambda: nd.ones((2,)).reshape((2**61 + 1, 8)),
        lambda: nd.ones((2,)).reshape((-1, 2**62, 8)),
        lambda: nd.zeros((0, LARGE, 4, 4)),
        lambda: nd.repeat(X, repeats=LARGE),
        lambda: nd.repeat(X, repeats=LARGE, axis=1),
        lambda: nd.tile(X, reps=(LARGE, LARGE)),
        lambda: nd.tile(X, reps=(LARGE,)),
        lambda: nd.one_hot(nd.zeros((8,)), depth=LARGE),
        lambda: nd.arange(0, 1e18, repeat=1000),
        lambda: nd.arange(0, float("inf")),
        lambda: nd.arange(0, float("nan")),
        lambda: nd.full((LARGE, 4), 1),
        lambda: nd.broadcast_to(nd.ones((1, 1)), shape=(LARGE, 4)),
        lambda: nd.broadcast_axis(nd.ones((1, 1)), axis=(0, 1), size=(LARGE, 4)),
        lambda: nd.concat(EMPTY, EMPTY, EMPTY, dim=1),
        lambda: nd.stack(*[nd.zeros((0, WIDE))] * 3).tile((4, 4, 4)),
        lambda: nd.UpSampling(X, scale=2**31 - 1, sample_type="nearest").tile((2**31, 1)),
        lambda: nd.eye(2**31, 2**31),
        lambda: nd.linspace(0, 1, num=LARGE),
        lambda: nd.random.uniform(shape=(LARGE, LARGE)),
        lambda: nd.im2col(EMPTY, kernel=(3, 3)),
        lambda: nd.Convolution(EMPTY, EMPTY, num_filter=1, kernel=(1, 1), pad=(2**31 - 1,) * 2,
                               no_bias=True),
        lambda: nd.linalg.makediag(nd.zeros((0, WIDE)), offset=2**31 - 1).tile((4,)),
        lambda: nd.Correlation(X, X, max_displacement=2**31 - 1, pad_size=2**31 - 1),
        lambda: nd.contrib.MultiBoxPrior(nd.zeros((0, 1, 2**31, 2**31)), sizes=(1, 2, 3)),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_errors(act: Callable[[], Any]) -> None:
    with pytest.raises((ValueError, MemoryError)) as caught:
        act()
    assert isinstance(caught.value, mx.MXNetError)


def test_views_stay_inside_their_memory() -> None:
    x = nd.arange(12).reshape((3, 4))
    np.testing.assert_array_equal(x._strided_view((2, 2), (4, 2), 1).asnumpy(), [[1, 3], [5, 7]])
    np.testing.assert_array_equal(x._strided_view((2,), (-4,), 5).asnumpy(), [5, 1])
    for shape, strides, offset in [
        ((4, 4), (4, 1), 0),
        ((3, 4), (4, 1), 1),
        ((3,), (1,), -1),
        ((2,), (-4,), 3),
        ((2,), (2**62,), 0),
        ((2**62, 3), (0, 2**62), 0),
        ((-1,), (1,), 0),
    ]:
        with pytest.raises((IndexError, ValueError, MemoryError)):
            x._strided_view(shape, strides, offset)
    with pytest.raises(IndexError, match="reaches from element 8 to 15.*memory has 12"):
        x._slice_view(2, 4, False)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: nd.Convolution(X, X, kernel=(0, 3), num_filter=1, no_bias=True),
         r"Convolution: parameter kernel must .*, got \(0, 3\)"),
        (lambda: nd.contrib.ROIAlign(X, X, pooled_size=(2, 2), spatial_scale=float("nan")),
         "parameter spatial_scale must .*, got nan"),
        (lambda: nd.softmax_cross_entropy(nd.zeros((2, 0)), nd.zeros(2)), "at least 1 class"),
        (lambda: nd.SoftmaxOutput(nd.ones(3), nd.ones(3), multi_output=True, preserve_shape=True),
         "SoftmaxOutput: data"),
        (lambda: nd.contrib.box_nms(nd.ones((2, 6)), coord_start=2**31 - 1), "coord_start"),
        (lambda: nd.batch_take(nd.zeros((2, 0)), nd.zeros(2)), "batch_take: a must"),
    ],
)  # fmt: skip
def test_parameters_and_inputs_that_do_not_fit_are_errors(
    act: Callable[[], Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        act()


@pytest.mark.parametrize("value", [1e30, -1e30, float("inf"), float("nan"), 3e38])
@pytest.mark.parametrize("op", ["ROIAlign", "RROIAlign"])
def test_regions_far_beyond_the_image_end_soon(op: str, value: float) -> None:
    data = nd.ones((1, 2, 32, 32))
    row = [[0, -5, -5, value, value, 30][: 5 if op == "ROIAlign" else 6]]
    result = getattr(nd.contrib, op)(data, nd.array(row), pooled_size=(7, 7), spatial_scale=1.0)
    assert result.shape == (1, 2, 7, 7)
    assert result.asnumpy().size == 98


def test_rotated_regions_larger_than_the_image_average_their_points() -> None:
    image = nd.arange(64).reshape((1, 1, 8, 8))
    region = nd.array([[0, 3.5, 3.5, 4, 4, 0]])
    result = nd.contrib.RROIAlign(image, region, pooled_size=(1, 1), spatial_scale=1.0)
    np.testing.assert_allclose(result.asnumpy().ravel(), [31.5], rtol=1e-5)
    # The bin has 800 x 800 points; about one per pixel lies in the image, the others count as zero.
    wide = nd.array([[0, 3.5, 3.5, 800, 800, 45]])
    share = nd.contrib.RROIAlign(nd.ones((1, 1, 8, 8)), wide, pooled_size=(1, 1), spatial_scale=1.0)
    points = 4 * (8 + 8)
    assert 0 <= float(share.asscalar()) <= (9 * points / 800 + 2) ** 2 / points**2


def test_clipped_indices_beyond_64_bits_take_the_last_row() -> None:
    table = nd.array([[1.0], [2.0], [3.0]])
    taken = nd.take(table, nd.array([1e30, -1e30, float("inf"), 1.0]))
    np.testing.assert_array_equal(taken.asnumpy().ravel(), [3, 1, 3, 2])


# -- internal operators -------------------------------------------------------------------------

INTERNAL = [
    "_box_nms_backward", "_pick_backward", "_convolution_backward_weight", "_slice_backward",
    "_softmax_backward", "_rnn_backward", "_layer_norm_backward", "_csr_spread",
]  # fmt: skip


@pytest.mark.parametrize("name", INTERNAL)
def test_programs_cannot_name_internal_operators(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is internal"):
        mx._core.op(name)
    with pytest.raises(ValueError, match=f"'{name}' is internal"):
        mx._core.OpCall(name, {})
    assert name not in mx._core.all_ops()
    assert name not in [op["name"] for op in mx._core.list_ops()]


def test_helpers_of_gradients_are_internal_unless_they_check_their_inputs() -> None:
    checked = {"_relu_backward", "_sigmoid_backward", "_tanh_backward", "_gather_nd_backward",
               "_backward_gather_nd", "_contrib_class_cosines_backward",
               "_contrib_margin_logsumexp_backward"}  # fmt: skip
    assert {name for name in mx._core.all_ops() if "backward" in name} <= checked


@pytest.mark.parametrize("name", ["_plus_scalar", "_contrib_box_nms", "_image_resize", "_copy"])
def test_public_names_with_underscores_stay_callable(name: str) -> None:
    assert mx._core.op(name).schema_name


def test_calls_with_another_number_of_inputs_are_errors() -> None:
    call = mx._core.OpCall("FullyConnected", {"num_hidden": "2"})
    one = [((2, 3), "float32")]
    with pytest.raises(TypeError, match=r"inputs must be 3 \(data, weight, bias\), got 1"):
        call.infer(one)
    with pytest.raises(TypeError, match="inputs must be 3 .*, got 1"):
        call.run([nd.ones((2, 3))])
    with pytest.raises(TypeError, match="inputs must be 3 .*, got 4"):
        call.run([nd.ones((2, 3))] * 4)
    with pytest.raises(TypeError, match="at least one array"):
        mx._core.OpCall("Concat", {}).infer([])


@pytest.mark.parametrize("huge", [2**63, 2**64, -(2**63) - 1])
def test_lists_with_integers_beyond_int64_name_the_parameter(huge: int) -> None:
    x = nd.ones((2, 3, 5, 5))
    with pytest.raises((TypeError, ValueError), match="slice: parameter begin must .*, got"):
        nd.slice(x, begin=(0, huge), end=(1, 1))
    with pytest.raises((TypeError, ValueError), match="Convolution: parameter stride must .*, got"):
        nd.Convolution(x, nd.ones((4, 3, 1, 1)), kernel=(1, 1), num_filter=4, no_bias=True,
                       stride=(1, huge))  # fmt: skip


def test_put_along_axis_needs_equal_lengths_beside_the_axis() -> None:
    put = mx._core.op("_put_along_axis")
    data, indices = nd.ones((3, 2)), nd.zeros((3, 2), dtype="int32")
    assert put(data, indices, shape=(3, 5), axis=1).shape == (3, 5)
    for shape in [(5, 5), (2, 5), (3,)]:
        with pytest.raises(mx.base.ShapeError, match="_put_along_axis: .* except along axis"):
            put(data, indices, shape=shape, axis=0 if len(shape) == 1 else 1)


def test_a_list_that_holds_itself_is_refused():
    itself: list = []
    itself.append(itself)

    class Endless:
        def __len__(self):
            return 1

        def __getitem__(self, index):
            if index:
                raise IndexError
            return self

    for given in (itself, Endless(), [[1]]):
        with pytest.raises(TypeError, match="sum: parameter axis must be .*, got an element"):
            nd.sum(nd.ones((2, 2)), axis=given)
    with pytest.raises(ValueError, match="sum: parameter axis must have at most 16777216 elements"):
        nd.sum(nd.ones((2, 2)), axis=range(10**12))
    with pytest.raises(OverflowError, match="a_min must fit into a double, got a larger int"):
        nd.clip(nd.ones((2, 2)), 10**400, 1)


def test_empty_vectors_take_no_time():
    for mode in ("instance", "channel"):
        begin = time.process_time()
        nd.L2Normalization(nd.zeros((2**31, 0, 2)), mode=mode).wait_to_read()
        assert time.process_time() - begin < 1


@pytest.mark.parametrize("hybrid", [False, True])
def test_results_without_elements_take_no_time(hybrid):
    net = mx.gluon.nn.HybridLambda(
        lambda F, rows, matrices: [F.softmax(rows), F.linalg_trmm(matrices, matrices)]
    )
    net.hybridize(hybrid)
    begin = time.process_time()
    for result in net(nd.zeros((2**40, 0)), nd.zeros((2**40, 0, 0))):
        result.wait_to_read()
    assert time.process_time() - begin < 1


def test_the_gradient_of_no_images_needs_no_memory_for_one():
    x = nd.zeros((0, 1, 5, 2**31))
    differentiated(nd.contrib.AdaptiveAvgPooling2D, x)
    assert x.grad.shape == x.shape
    nd.waitall()


@pytest.mark.parametrize("make", [mx.cpu, mx.gpu, mx.cpu_pinned])
def test_devices_have_numbers_of_at_least_0(make):
    with pytest.raises(mx.MXNetError, match="device_id .* must be at least 0, got -1"):
        make(-1)


def test_names_of_devices_are_read_whole():
    for text in ("cpu(-1)", "cpu(", "cpu(1", "cpu(x)", "cpu(1)x", "gpu(99999999999)", "tpu"):
        with pytest.raises(mx.MXNetError, match="context must be"):
            nd.ones((2,), ctx=text)
    assert nd.ones((2,), ctx="cpu(3)").ctx == mx.cpu(3)
    with pytest.raises(TypeError, match="Context: device_type must be a name .*, got int"):
        mx.Context(3)
    with pytest.raises(mx.MXNetError, match="device_typeid must be .* got 99"):
        mx.Context.__new__(mx.Context).__setstate__({"device_typeid": 99, "device_id": 0})
