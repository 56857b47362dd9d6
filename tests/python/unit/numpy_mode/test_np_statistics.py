"""Percentiles, histograms, differences, interpolation against NumPy."""

import mxlite as mx
import numpy as onp
import pytest
from comparing import Call, assert_same, check, numbers, of, parts
from mxlite import autograd

np = mx.np
NAN = onp.nan
HOLES = numbers(2, 5)
HOLES[0, 1] = HOLES[1, 2] = HOLES[1, 4] = NAN
POINTS = onp.sort(numbers(6))


def both(name, *options, **named):
    """Return a function of mx.np and the official one with the same options."""
    official = getattr(onp, name)
    return (
        lambda *a: getattr(np, name)(*a, *options, **named),
        lambda *a: official(*a, *options, **named),
    )


CASES = {
    **{
        f"{name} {q} {axis} {keepdims}": (
            *both(name, onp.array(q) * (1 if "quantile" in name else 100), axis, keepdims=keepdims),
            [numbers(3, 4, 2)],
        )
        for name in ("quantile", "percentile")
        for q, axis, keepdims in (
            (0.3, None, False), (0.5, 1, True), ([0.0, 0.25, 1.0], 0, False),
            ([[0.1], [0.9]], (0, 2), False), (0.7, -1, False),
        )
    },
    **{
        f"quantile {method}": (*both("quantile", 0.4, -1, method=method), [numbers(2, 4)])
        for method in ("linear", "lower", "higher", "midpoint", "nearest")
    },
    "median": (*both("median"), [numbers(3, 4)]),
    "median axis": (*both("median", 1, keepdims=True), [numbers(3, 5)]),
    "diff": (*both("diff"), [numbers(3, 5)]),
    "diff 2": (*both("diff", 2, 0), [numbers(5, 3)]),
    "diff 9": (*both("diff", 9), [numbers(2, 3)]),
    "ediff1d": (*both("ediff1d"), [numbers(3, 4)]),
    "ediff1d ends": (
        lambda a, b: np.ediff1d(a, to_begin=b, to_end=2.0),
        lambda a, b: onp.ediff1d(a, to_begin=b, to_end=2.0), [numbers(4), numbers(2)],
    ),
    "cov": (*both("cov"), [numbers(3, 7)]),
    "cov pair": (*both("cov"), [numbers(7), numbers(7, seed=1)]),
    "cov columns": (*both("cov", rowvar=False, bias=True), [numbers(7, 3)]),
    "cov vector": (*both("cov", ddof=2), [numbers(7)]),
    "cov weights": (
        *both("cov", fweights=onp.array([1, 2, 1, 3]), aweights=onp.array([0.5, 1.0, 2.0, 1.0])),
        [numbers(2, 4)],
    ),
    "corrcoef": (*both("corrcoef"), [numbers(3, 7)]),
    "interp": (
        lambda x, f: np.interp(x, of(POINTS), f), lambda x, f: onp.interp(x, POINTS, f),
        [numbers(2, 5, seed=3), numbers(6)],
    ),
    "interp ends": (
        lambda x, f: np.interp(x, of(POINTS), f, -1.0, 5.0),
        lambda x, f: onp.interp(x, POINTS, f, -1.0, 5.0), [3 * numbers(9, seed=3), numbers(6)],
    ),
    "interp period": (
        lambda x, f: np.interp(x, of(POINTS), f, period=1.5),
        lambda x, f: onp.interp(x, POINTS, f, period=1.5), [3 * numbers(9, seed=3), numbers(6)],
    ),
    "trapezoid": (
        lambda y: np.trapezoid(y, dx=0.5, axis=0), lambda y: 0.25 * (y[1:] + y[:-1]).sum(0),
        [numbers(4, 3)],
    ),
    "trapz places": (
        np.trapz, lambda y, x: ((y[:, 1:] + y[:, :-1]) / 2 * onp.diff(x)).sum(-1),
        [numbers(2, 4), numbers(4)],
    ),
    "polyval": (*both("polyval"), [numbers(4), numbers(2, 3)]),
    "polyval of nothing": (*both("polyval"), [numbers(4), numbers(2, 0, 3)]),
    "unwrap": (*both("unwrap"), [5 * numbers(3, 6)]),
    "unwrap axis": (*both("unwrap", axis=0, period=2.0), [3 * numbers(6, 2)]),
    "ptp": (*both("ptp", 1), [numbers(3, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_numpy(name):
    check(*CASES[name])


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("name", ["nanquantile", "nanpercentile", "nanmedian"])
def test_quantiles_skip_nan(name, axis):
    options = () if name == "nanmedian" else (0.4,)
    mine, official = both(name, *options, axis=axis)
    assert_same(parts(mine(of(HOLES))), [official(HOLES)])
    x = of(HOLES)
    x.attach_grad()
    with autograd.record():
        loss = mine(x).sum()
    loss.backward()
    total = x.grad.asnumpy()
    count = onp.asarray(official(HOLES)).size
    onp.testing.assert_allclose(total.sum(), count)
    assert (total[onp.isnan(HOLES)] == 0).all()


def test_a_row_with_nan_has_the_quantile_nan():
    found = np.median(of(HOLES[:, :2]), axis=1)
    onp.testing.assert_array_equal(onp.isnan(found.asnumpy()), [True, False])
    with pytest.raises(ValueError, match="q must be between 0 and 1"):
        np.quantile(np.ones(3), 1.5)
    with pytest.raises(ValueError, match="method must be"):
        np.quantile(np.ones(3), 0.5, method="best")


def test_1_x_names_of_options_work():
    x = np.array([3.0, 1, 2])
    assert np.percentile(x, np.array([0.0, 100.0]), interpolation="lower").tolist() == [1, 3]
    out = np.zeros(())
    assert np.quantile(x, 0.5, None, out) is out
    assert out.item() == 2


def test_histograms_are_lists_of_counts_and_edges():
    x = numbers(50)
    counts, edges = np.histogram(of(x), bins=4, range=(-1, 1))
    wanted = onp.histogram(x, 4, (-1, 1))
    assert counts.dtype == onp.int64
    assert counts.tolist() == wanted[0].tolist()
    onp.testing.assert_allclose(edges.asnumpy(), wanted[1], rtol=1e-6)
    bounds = onp.array([-1.0, 0.0, 2.0])
    assert_same(np.histogram(of(x), of(bounds)), onp.histogram(x, bounds))
    weighted = np.histogram(of(x), 3, weights=of(x), density=True)[0]
    expected = onp.histogram(x, 3, weights=x, density=True)[0]
    onp.testing.assert_allclose(weighted.asnumpy(), expected, rtol=1e-5)


def test_bincount_counts_or_sums_weights_with_gradient():
    x = onp.array([1, 3, 1, 0])
    assert_same([np.bincount(of(x), minlength=6)], [onp.bincount(x, minlength=6)])
    weights = numbers(4)
    check(lambda w: np.bincount(of(x), w), lambda w: onp.bincount(x, w), [weights], hybrid=False)
    assert np.bincount(np.array([], dtype="int64")).shape == (0,)
    for wrong in (np.array([-1], dtype="int64"), np.ones((2, 2), dtype="int64")):
        with pytest.raises(ValueError, match="^bincount"):
            np.bincount(wrong)
    with pytest.raises(TypeError, match="integers"):
        np.bincount(np.ones(2))
    net = Call(np.bincount)
    net.hybridize()  # the block runs operator by operator
    assert_same([net(of(x))], [onp.bincount(x)])


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_digitize_returns_the_bins(right, order):
    x, bins = onp.array([[-1.0, 0.0], [1.0, 5.0]]), onp.array([0.0, 1.0, 2.0])[::order]
    found = np.digitize(of(x), of(bins.copy()), right)
    assert_same([found], [onp.digitize(x, bins, right)])
    with pytest.raises(ValueError, match="ascend or descend"):
        np.digitize(of(x), np.array([0.0, 2.0, 1.0]))


def test_interp_passes_through_infinite_points():
    x, xp = onp.array([1.0, 2.0, 2.5, 3.0, 4.0]), onp.array([1.0, 2.0, 3.0, 4.0])
    fp = onp.array([1.0, 2.0, onp.inf, 4.0])
    assert_same([np.interp(of(x), of(xp), of(fp))], [onp.interp(x, xp, fp)])


def test_diff_takes_ends_and_bools():
    x = numbers(2, 3)
    found = np.diff(of(x), prepend=0.0, append=of(x[:, :1]))
    assert_same([found], [onp.diff(x, prepend=0.0, append=x[:, :1])])
    flags = onp.array([True, False, False])
    assert_same([np.diff(of(flags))], [onp.diff(flags)])


def test_integers_become_float32_where_results_are_fractions():
    x = np.array([1, 2, 4], dtype="int32")
    for result in (np.median(x), np.quantile(x, 0.5), np.cov(x), np.interp(x, x, x)):
        assert result.dtype == onp.float32
    assert np.diff(x).dtype == onp.int32
    assert np.polyval(x, x).dtype == onp.int32
