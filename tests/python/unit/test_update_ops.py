"""States and in-place results of the weight updates, over two steps, and mixed precision."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from op_table import rand
from pairing import pairs
from update_formulas import FORMULAS, HYPER, states_of

SHAPE = (3, 700)  # more than one block


def _array(values: np.ndarray, dtype: str) -> mx.nd.NDArray:
    return mx.nd.array(values, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(FORMULAS))
def test_two_steps_in_place_change_weight_and_states_by_the_formula(name: str, dtype: str) -> None:
    weight, states = rand(*SHAPE), states_of(name, SHAPE)
    arrays = [_array(a, dtype) for a in (weight, *states)]
    weight, *states = [a.asnumpy().astype("float64") for a in arrays]
    update = mx._core.op(name)
    in_place = name != "lamb_update_phase1"
    for _ in range(2):
        grad = rand(*SHAPE)
        step = FORMULAS[name](
            weight, _array(grad, dtype).asnumpy().astype("float64"), *states, **HYPER[name]
        )
        out = arrays[0] if in_place else mx.nd.zeros(SHAPE, dtype=dtype)
        result = update(arrays[0], _array(grad, dtype), *arrays[1:], out=out, **HYPER[name])
        assert result is out
        new_states = list(step[1:])
        states = new_states + states[len(new_states) :]
        weight = step[0] if in_place else weight
        tolerance = 1e-10 if dtype == "float64" else 2e-5
        np.testing.assert_allclose(out.asnumpy(), step[0], rtol=tolerance, atol=tolerance)
        for got, want in pairs(arrays[1:], states):
            np.testing.assert_allclose(got.asnumpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("mixed", "plain", "params"),
    [
        ("mp_sgd_update", "sgd_update", {"lr": 0.1, "wd": 0.1}),
        ("mp_sgd_mom_update", "sgd_mom_update", {"lr": 0.1, "momentum": 0.9}),
        ("mp_nag_mom_update", "nag_mom_update", {"lr": 0.1, "momentum": 0.9}),
    ],
)
def test_mixed_precision_keeps_steps_that_the_half_weight_loses(
    mixed: str, plain: str, params: dict[str, float], dtype: str
) -> None:
    values = rand(*SHAPE)
    states = [] if plain == "sgd_update" else [mx.nd.zeros(SHAPE)]
    reference_states = [s.copy() for s in states]
    master, half = _array(values, "float32"), _array(values, "float32").astype(dtype)
    reference = master.copy()
    for _ in range(3):
        grad = (mx.nd.array(rand(*SHAPE)) * 1e-3).astype(dtype)
        mx._core.op(mixed)(half, grad, *states, master, out=half, **params)
        mx._core.op(plain)(
            reference, grad.astype("float32"), *reference_states, out=reference, **params
        )
    np.testing.assert_array_equal(master.asnumpy(), reference.asnumpy())
    np.testing.assert_array_equal(half.asnumpy(), reference.astype(dtype).asnumpy())
    assert np.abs(master.asnumpy() - half.astype("float32").asnumpy()).max() > 0


def test_mixed_lamb_and_adamw_change_the_float32_weight() -> None:
    half = mx.nd.ones(4, dtype="float16")
    master, grad = mx.nd.ones(4), mx.nd.ones(4)
    one = mx.nd.ones(1)
    mx.nd.mp_lamb_update_phase2(half, grad, one, one, master, lr=0.25, out=half)
    assert master.asnumpy().tolist() == half.asnumpy().tolist() == [0.75] * 4
    mean, var = mx.nd.zeros(4), mx.nd.ones(4)
    mx._core.op("_mp_adamw_update")(
        half, grad.astype("float16"), mean, var, master, one, lr=0.1, eta=1, out=half
    )
    want = 0.75 - 0.1 * 0.1 / (np.sqrt(0.999 + 0.001) + 1e-8)
    np.testing.assert_allclose(master.asnumpy(), want, rtol=1e-6)
    np.testing.assert_allclose(half.asnumpy(), want, rtol=1e-3)


def test_multi_updates_write_every_weight_in_place() -> None:
    arrays = [
        mx.nd.ones(4),
        mx.nd.ones(4),
        mx.nd.zeros(4),
        mx.nd.ones(3),
        mx.nd.ones(3),
        mx.nd.zeros(3),
    ]
    mx.nd.multi_sgd_mom_update(
        *arrays, lrs=(0.1, 0.2), wds=(0, 0), momentum=0.9, num_weights=2, out=[arrays[0], arrays[3]]
    )
    np.testing.assert_allclose(arrays[0].asnumpy(), 0.9)
    np.testing.assert_allclose(arrays[2].asnumpy(), -0.1)
    np.testing.assert_allclose(arrays[3].asnumpy(), 0.8)
    np.testing.assert_allclose(arrays[5].asnumpy(), -0.2)


def test_reset_arrays_clears_all() -> None:
    arrays = [mx.nd.ones((2, 3)), mx.nd.ones(4, dtype="float16")]
    mx.nd.reset_arrays(*arrays, num_arrays=2)
    assert all((a.asnumpy() == 0).all() for a in arrays)
