"""Buckets of gradients in one process: packing, sizes, memory, and the order of backward."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from custom_ops import custom
from mxlite import _core, autograd, gluon
from mxlite.comm import bucket_plan
from mxlite.comm.bucket_plan import BucketSizes, near_equal_parts, packed, wire_dtype
from mxlite.comm.buckets import GradientBuckets
from mxlite.comm.groups import Group
from recording import differentiated

ALONE = Group(0, (0,), 0)


@pytest.fixture
def job() -> Iterator[None]:
    """Join a job of one process."""
    hvd.init()
    yield
    hvd.shutdown()


@pytest.fixture
def buckets(job: None) -> GradientBuckets:
    return GradientBuckets("test")


@pytest.fixture
def noted() -> Iterator[None]:
    _core.note_gradient_order(True)
    yield
    _core.note_gradient_order(False)


def address(array: Any) -> int:
    array.wait_to_read()
    return np.from_dlpack(array).ctypes.data


def test_buckets_are_filled_in_order_and_hold_one_kind() -> None:
    kinds = {"a": ("f", 4), "b": ("f", 4), "c": ("h", 2), "d": ("f", 4), "e": ("h", 2)}
    assert packed("abcde", kinds, 8) == [["a", "b"], ["d"], ["c", "e"]]
    assert packed("edcba", kinds, 8) == [["d", "b"], ["e", "c"], ["a"]]
    assert packed("abcde", kinds) == [["a", "b", "d"], ["c", "e"]]
    # One that is larger than a bucket has its own.
    assert sorted(map(tuple, packed("abcde", kinds, 1))) == [(name,) for name in "abcde"]


def test_groups_are_near_equal() -> None:
    assert near_equal_parts(list("abcde"), 2) == [["a", "b", "c"], ["d", "e"]]
    assert near_equal_parts(["a"], 3) == [["a"]]
    assert near_equal_parts([], 3) == []


def test_only_wider_floats_travel_as_halves() -> None:
    dtypes = ["float32", "float64", "float16", "bfloat16", "int32"]
    arrays = [mx.nd.zeros((1,), dtype=dtype) for dtype in dtypes]
    found = [wire_dtype(array, "bfloat16") for array in arrays]
    assert found == ["bfloat16", "bfloat16", "float16", "bfloat16", "int32"]
    assert [wire_dtype(array, None) for array in arrays] == dtypes


def test_numbers_in_names_are_counted_from_the_lowest() -> None:
    first = bucket_plan._relative(["0 net3_dense7_weight", "1 net3_dense8_weight"])
    other = bucket_plan._relative(["0 net0_dense0_weight", "1 net0_dense1_weight"])
    swapped = bucket_plan._relative(["0 net0_dense1_weight", "1 net0_dense0_weight"])
    assert first == other and first != swapped


def network(hybrid: bool) -> Any:
    net = gluon.nn.HybridSequential()
    for _ in range(4):
        net.add(gluon.nn.Dense(8, activation="tanh", in_units=8))
    net.initialize(mx.init.Xavier())
    net.hybridize(hybrid)
    return net


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_backward_notes_the_gradients_of_later_layers_first(noted: None, hybrid: bool) -> None:
    net = network(hybrid)
    with autograd.record():
        loss = net(mx.nd.ones((2, 8))).sum()
    grads = [layer.weight.grad() for layer in net]
    assert _core.gradient_positions(grads) == [0, 0, 0, 0]
    loss.backward()
    positions = _core.gradient_positions([layer.weight.grad() for layer in net])
    assert positions == sorted(positions, reverse=True) and len(set(positions)) == 4
    assert positions[-1] > 0
    _core.note_gradient_order(False)
    assert _core.gradient_positions(grads) == [0, 0, 0, 0]


def test_a_variable_used_twice_counts_from_its_last_contribution(noted: None) -> None:
    early, late = mx.nd.ones((3,)), mx.nd.ones((3,))
    for array in (early, late):
        array.attach_grad()
    with autograd.record():
        value = late * 2
        value = value * early
        value = value * late
    value.backward()
    first, last = _core.gradient_positions([early.grad, late.grad])
    assert first < last


def gradients(net: Any) -> list[Any]:
    return [p.grad() for p in net.collect_params().values()]


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("request_kind", ["write", "add"])
def test_gradients_lie_side_by_side_from_the_first_step_on(
    buckets: GradientBuckets, hybrid: bool, request_kind: str
) -> None:
    net = network(hybrid)
    net.collect_params().setattr("grad_req", request_kind)
    data = mx.nd.random.uniform(shape=(2, 8))
    alone: list[Any] = []
    for step in range(1, 4):
        differentiated(lambda: net(data).sum())
        grads = gradients(net)
        found = [grad.asnumpy() for grad in grads]
        if not alone:
            alone = found
        factor = step if request_kind == "add" else 1
        for values, expected in zip(found, alone):
            np.testing.assert_allclose(values, factor * expected, rtol=1e-5)
        names = [str(i) for i in range(len(grads))]
        sums = buckets.sum(names, [[grad] for grad in grads], ALONE)
        for total, grad, values in zip(sums, grads, found):
            assert total is grad
            np.testing.assert_array_equal(total.asnumpy(), values)
        places = sorted(address(grad) for grad in grads)
        sizes = {address(grad): grad.size * 4 for grad in grads}
        for place, following in zip(places, places[1:]):
            assert following - place == -(-sizes[place] // 64) * 64


def test_sums_of_their_own_leave_gradients_unchanged(job: None) -> None:
    buckets = GradientBuckets("test", in_place=False)
    grads = [mx.nd.array([1.0, 2.0]), mx.nd.array([[3.0]])]
    for turn in range(3):
        sums = buckets.sum(["a", "b"], [[grad] for grad in grads], ALONE, prescale=0.5)
        for grad, total in zip(grads, sums):
            assert total is not grad
            np.testing.assert_array_equal(total.asnumpy(), grad.asnumpy() / 2)
            grad += turn


def test_arrays_that_are_part_of_others_are_copied_in_and_out(buckets: GradientBuckets) -> None:
    whole = mx.nd.arange(6)
    part = whole[2:4]
    for _ in range(2):
        buckets.sum(["part"], [[part]], ALONE, prescale=2.0)
    np.testing.assert_array_equal(part.asnumpy(), [8, 12])
    np.testing.assert_array_equal(whole.asnumpy(), [0, 1, 8, 12, 4, 5])


@pytest.mark.parametrize("has_view", [False, True])
def test_nothing_waits_for_gradients_that_are_being_made(
    buckets: GradientBuckets, has_view: bool
) -> None:
    events: list[str] = []
    returned = threading.Event()

    def forward(self, is_train, req, in_data, out_data, aux):
        events.append("made" if returned.wait(4) else "not waited for any longer")
        self.assign(out_data[0], req[0], in_data[0] * 3)

    custom("bucket_gate", forward)
    grads = [mx.nd.ones((3,)), mx.nd.ones((5,))]
    views = [grad.reshape((-1, 1)) for grad in grads] if has_view else []
    places = [address(grad) for grad in grads]
    for grad in grads:
        mx.nd.Custom(mx.nd.ones(grad.shape), op_type="bucket_gate").copyto(grad)
    buckets.sum(["a", "b"], [[grad] for grad in grads], ALONE, prescale=2.0)
    events.append("sum returned")
    returned.set()
    for array in grads + views:
        np.testing.assert_array_equal(array.asnumpy().ravel(), np.full(array.size, 6.0))
    assert events == ["sum returned", "made", "made"]
    # Gradients lie in the bucket from the first step on, unless a view would keep old memory.
    assert ([address(grad) for grad in grads] == places) == has_view
    assert has_view or abs(address(grads[0]) - address(grads[1])) == 64
    buckets.sum(["a", "b"], [[grad] for grad in grads], ALONE, prescale=2.0)
    for array in grads + views:
        np.testing.assert_array_equal(array.asnumpy().ravel(), np.full(array.size, 12.0))


def test_a_view_that_is_gone_no_longer_keeps_a_gradient_out(buckets: GradientBuckets) -> None:
    grads = [mx.nd.ones((3,)), mx.nd.ones((5,))]
    view = grads[0][1:]
    place = address(grads[0])
    for factor in (2, 4):
        buckets.sum(["a", "b"], [[grad] for grad in grads], ALONE, prescale=2.0)
        np.testing.assert_array_equal(view.asnumpy(), np.full(2, factor))
        assert address(grads[0]) == place
    del view
    buckets.sum(["a", "b"], [[grad] for grad in grads], ALONE, prescale=2.0)
    assert address(grads[0]) != place and abs(address(grads[0]) - address(grads[1])) == 64
    for grad in grads:
        np.testing.assert_array_equal(grad.asnumpy(), np.full(grad.size, 8))


def test_numpy_arrays_on_the_memory_of_a_gradient_follow_it(buckets: GradientBuckets) -> None:
    grad = mx.nd.ones((3,))
    grad.wait_to_read()
    shared = np.from_dlpack(grad)
    for factor in (2, 4):
        buckets.sum(["a"], [[grad]], ALONE, prescale=2.0)
        grad.wait_to_read()
        np.testing.assert_array_equal(shared, np.full(3, factor))


def test_memory_of_others_keeps_its_place(job: None) -> None:
    values = np.ones(4, "float32")
    array = mx.nd.from_dlpack(values.__dlpack__())
    GradientBuckets("test").sum(["a"], [[array]], ALONE, prescale=3.0)
    array.wait_to_read()
    np.testing.assert_array_equal(values, 3)


def test_two_arrays_in_turn_under_one_name(buckets: GradientBuckets) -> None:
    first, second = mx.nd.full((2,), 1), mx.nd.full((2,), 10)
    for count in (1, 2):
        buckets.sum(["a"], [[first]], ALONE, prescale=2.0)
        buckets.sum(["a"], [[second]], ALONE, prescale=3.0)
        np.testing.assert_array_equal(first.asnumpy(), 2**count)
        np.testing.assert_array_equal(second.asnumpy(), 10 * 3**count)


def test_holes_and_names_that_come_later(buckets: GradientBuckets) -> None:
    arrays = {name: mx.nd.ones((3,)) for name in "abcd"}
    for names in ("abc", "ac", "b", "abcd", "d"):
        buckets.sum(list(names), [[arrays[name]] for name in names], ALONE, prescale=2.0)
    counts = {"a": 3, "b": 3, "c": 3, "d": 2}
    for name, count in counts.items():
        np.testing.assert_array_equal(arrays[name].asnumpy(), 2**count)


def test_other_shapes_and_dtypes_make_new_buckets(buckets: GradientBuckets) -> None:
    for array in (mx.nd.ones((3,)), mx.nd.ones((2, 2)), mx.nd.ones((2, 2), dtype="float16")):
        (total,) = buckets.sum(["a"], [[array]], ALONE, prescale=2.0)
        assert total.dtype == array.dtype
        np.testing.assert_array_equal(total.asnumpy(), np.full(array.shape, 2))


def test_arrays_without_elements_and_without_dimensions(buckets: GradientBuckets) -> None:
    empty, scalar = mx.nd.zeros((0, 3)), mx.nd.array([1.5]).reshape(())
    found = buckets.sum(["empty", "scalar"], [[empty], [scalar]], ALONE, prescale=2.0)
    assert found[0].shape == (0, 3) and float(found[1].asnumpy()) == 3


def test_buckets_are_not_copied_together(job: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXLITE_BUCKET_MB", "0.00001")
    buckets = GradientBuckets("test")
    arrays = [mx.nd.full((k + 1,), k) for k in range(100)]
    before = _core.comm_stats()
    buckets.sum([str(k) for k in range(100)], [[a] for a in arrays], ALONE, prescale=2.0)
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(array.asnumpy(), np.full(k + 1, 2 * k))
    after = _core.comm_stats()
    assert after["tensors"] - before["tensors"] == after["responses"] - before["responses"] == 100


@pytest.mark.parametrize("wire", ["float16", "bfloat16"])
@pytest.mark.parametrize("in_place", [True, False])
def test_halves_travel_and_the_sums_are_as_wide_as_before(
    job: None, wire: str, in_place: bool
) -> None:
    values = np.random.RandomState(3).normal(size=37).astype("float32")
    rounded = mx.nd.array(values).astype(wire).astype("float32").asnumpy()
    buckets = GradientBuckets("test", in_place=in_place, wire=wire)
    for _ in range(2):
        array, whole = mx.nd.array(values), mx.nd.array([1, 2], dtype="int32")
        total, other = buckets.sum(["a", "b"], [[array], [whole]], ALONE, prescale=2.0)
        assert total.dtype == np.float32 and other.dtype == np.int32
        np.testing.assert_array_equal(total.asnumpy(), 2 * rounded)
        np.testing.assert_array_equal(array.asnumpy(), 2 * rounded if in_place else values)
        np.testing.assert_array_equal(other.asnumpy(), [2, 4])
        np.testing.assert_array_equal(whole.asnumpy(), [2, 4] if in_place else [1, 2])


@pytest.mark.parametrize("in_place", [True, False])
def test_contexts_of_one_process_are_added_up(job: None, in_place: bool) -> None:
    buckets = GradientBuckets("test", in_place=in_place)
    for _ in range(2):
        arrays = [mx.nd.full((3,), k + 1, ctx=mx.cpu(k)) for k in range(3)]
        (total,) = buckets.sum(["a"], [arrays], ALONE, prescale=0.5)
        np.testing.assert_array_equal(total.asnumpy(), 3)
        for k, array in enumerate(arrays):
            assert array.ctx == mx.cpu(k)
            np.testing.assert_array_equal(array.asnumpy(), 3 if in_place else k + 1)


def test_an_input_that_failed_fails_its_sum_and_the_next_step_is_right(
    buckets: GradientBuckets,
) -> None:
    a, b = mx.nd.ones((2,)), mx.nd.ones((2,))
    buckets.sum(["a", "b"], [[a], [b]], ALONE)

    custom("bucket_broken", lambda self, **_: 1 / 0)
    failed = mx.nd.Custom(a, op_type="bucket_broken")
    failed.copyto(a)
    buckets.sum(["a", "b"], [[a], [b]], ALONE)
    with pytest.raises(mx.MXNetError):
        a.wait_to_read()
    for array in (a, b):
        array[:] = 5
    buckets.sum(["a", "b"], [[a], [b]], ALONE, prescale=2.0)
    for array in (a, b):
        np.testing.assert_array_equal(array.asnumpy(), 10)


def test_bad_gradients_are_refused_by_name(buckets: GradientBuckets) -> None:
    rows = mx.nd.ones((2, 2)).tostype("row_sparse")
    with pytest.raises(mx.MXNetError, match="gradient rows must be .*got row_sparse"):
        buckets.sum(["rows"], [[rows]], ALONE)
    array = mx.nd.ones((2,))
    with pytest.raises(mx.MXNetError, match="names of gradients must be distinct, got a"):
        buckets.sum(["a", "a"], [[array], [array]], ALONE)


@pytest.mark.parametrize("text", ["many", "-1", "0", "nan", "1e9"])
def test_a_wrong_size_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MXLITE_BUCKET_MB", text)
    with pytest.raises(ValueError, match=f"MXLITE_BUCKET_MB must be a number of MB .*got '{text}'"):
        GradientBuckets("test")


def test_the_size_with_the_shortest_steps_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_plan, "_SIZES", (400, 200, 100))
    monkeypatch.setattr(bucket_plan, "_TRIAL_STEPS", 3)
    monkeypatch.setattr(bucket_plan, "_SKIPPED_STEPS", 1)
    seconds = {400: 1.0, 200: 0.5, 100: 0.495}  # the last one gains less than 2 %
    clock = [0.0]
    monkeypatch.setattr(bucket_plan.time, "perf_counter", lambda: clock[0])
    sizes = BucketSizes("test")
    kinds = {"a": ("float32", 300), "b": ("float32", 300)}
    seen = []
    while not sizes.done:
        before = sizes.current
        assert sizes.count_step(kinds, ALONE) == (sizes.current != before)
        seen.append(sizes.current)
        clock[0] += seconds[sizes.current]
    assert seen == [400] * 3 + [200] * 3 + [100] * 3 + [200]


def test_small_models_try_no_sizes() -> None:
    sizes = BucketSizes("test")
    assert not sizes.count_step({"a": ("float32", 1000)}, ALONE) and sizes.done
    assert sizes.current == 25 << 20
