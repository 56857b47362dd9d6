"""Official NumPy's functions, ufuncs, and the array API standard on mx.np arrays."""

import mxlite as mx
import numpy as onp
import pytest
from comparing import Call, numbers, of
from mxlite import autograd

np = mx.np
A, B = numbers(2, 3, dtype="float32"), numbers(2, 3, seed=1, dtype="float32")

FUNCTIONS = {
    "sum": lambda a, b: onp.sum(a, axis=0, keepdims=True),
    "mean": lambda a, b: onp.mean(a),
    "concatenate": lambda a, b: onp.concatenate([a, b], axis=1),
    "stack": lambda a, b: onp.stack((a, b)),
    "where": lambda a, b: onp.where(a > b, a, b),
    "dot": lambda a, b: onp.dot(a, b.T),
    "tensordot": lambda a, b: onp.tensordot(a, b, 2),
    "reshape": lambda a, b: onp.reshape(a, (3, 2)),
    "clip": lambda a, b: onp.clip(a, -0.5, 0.5),
    "linalg.norm": lambda a, b: onp.linalg.norm(a, axis=1),
    "linalg.svd": lambda a, b: onp.linalg.svd(a, full_matrices=False)[1],
    "zeros_like": lambda a, b: onp.zeros_like(a),
    "argmax": lambda a, b: onp.argmax(a, axis=1),
    "quantile": lambda a, b: onp.quantile(a, 0.3, axis=1),
    # Functions that only official NumPy has.
    "polyfit": lambda a, b: onp.polyfit(a[0], b[0], 1),
    "convolve": lambda a, b: onp.convolve(a[0], b[0]),
    "apply_along_axis": lambda a, b: onp.apply_along_axis(onp.sort, 1, a),
    "gradient": lambda a, b: onp.gradient(a, axis=1),
}
UFUNCS = {
    "add": lambda a, b: onp.add(a, b),
    "exp": lambda a, b: onp.exp(a),
    "subtract number": lambda a, b: onp.subtract(1, a),
    "arctan2": lambda a, b: onp.arctan2(a, b),
    "logical_and": lambda a, b: onp.logical_and(a > 0, b > 0),
    "matmul": lambda a, b: onp.matmul(a, b.T),
    "heaviside": lambda a, b: onp.heaviside(a, b),
    "spacing": lambda a, b: onp.spacing(a),
    "add.reduce": lambda a, b: onp.add.reduce(a),
    "add.reduce all": lambda a, b: onp.add.reduce(a, axis=None),
    "maximum.reduce": lambda a, b: onp.maximum.reduce(a, axis=1, keepdims=True),
    "multiply.accumulate": lambda a, b: onp.multiply.accumulate(a, axis=1),
    "subtract.reduce": lambda a, b: onp.subtract.reduce(a),
    "multiply.outer": lambda a, b: onp.multiply.outer(a, b),
    "add.reduceat": lambda a, b: onp.add.reduceat(a, [0, 2], axis=1),
}


@pytest.mark.parametrize("name", [*FUNCTIONS, *UFUNCS])
def test_official_functions_return_np_arrays(name):
    function = {**FUNCTIONS, **UFUNCS}[name]
    found, wanted = function(of(A), of(B)), function(A, B)
    if isinstance(wanted, onp.ndarray) or isinstance(found, np.ndarray):
        assert type(found) is np.ndarray
        found = found.asnumpy()
    onp.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_routed_functions_are_recorded_and_traced():
    x = of(A)
    x.attach_grad()
    with autograd.record():
        loss = onp.sum(onp.exp(x) * 2)
    loss.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * onp.exp(A), rtol=1e-5)
    net = Call(lambda a: onp.concatenate([onp.exp(a), a]))
    net.hybridize()
    assert net(of(A)).shape == (4, 3)


def test_fallbacks_raise_where_they_would_lose_gradients_or_values():
    x = of(A)
    x.attach_grad()
    with autograd.record():
        for call in (
            lambda: np.polyfit(x[0], x[1], 1),
            lambda: onp.gradient(x * 2, axis=1),
            lambda: onp.spacing(x),
        ):
            with pytest.raises(ValueError, match=r"a\.detach\(\)"):
                call()
        assert np.polyfit(x.detach()[0], x.detach()[1], 1).shape == (2,)
    net = Call(lambda a: np.convolve(a, a))
    net.hybridize()  # the block runs operator by operator
    assert net(np.ones(3)).tolist() == [1, 2, 3, 2, 1]


def test_fallbacks_convert_results():
    assert type(np.convolve(np.ones(3), np.ones(2))) is np.ndarray
    values, exponents = np.frexp(np.array([1.0, 8.0]))
    assert (values.tolist(), exponents.tolist()) == ([0.5, 0.5], [1, 4])
    assert np.apply_along_axis(lambda r: r.sum(), 1, np.ones((2, 3))).tolist() == [3, 3]
    with pytest.raises(TypeError, match="complex"):
        np.roots(np.array([1.0, 0.0, 1.0]))
    with pytest.raises(TypeError, match="as_np_ndarray"):
        np.convolve(mx.nd.ones(3), np.ones(2))


def test_names_that_official_numpy_removed_raise_when_called():
    if not hasattr(onp, "pv"):
        with pytest.raises(NotImplementedError, match="pv: the installed NumPy"):
            np.pv(0.05, 10, 100)


def test_official_arrays_do_not_mix_with_np_arrays():
    for call in (
        lambda: onp.ones(3) * np.ones(3),
        lambda: onp.concatenate([onp.ones(3), np.ones(3)]),
        lambda: onp.add(np.ones(3), onp.ones(3)),
        lambda: onp.add(np.ones(3), 1, out=onp.ones(3, "float32")),
    ):
        with pytest.raises(TypeError):
            call()
    total = onp.float32(2) * np.ones(3)
    assert type(total) is np.ndarray


def test_ufuncs_write_into_out_and_in_place():
    out = np.zeros((2, 3))
    assert onp.add(of(A), of(B), out=out) is out
    onp.testing.assert_allclose(out.asnumpy(), A + B, rtol=1e-6)
    assert onp.spacing(of(A), out=out) is out
    onp.testing.assert_array_equal(out.asnumpy(), onp.spacing(A))
    x = np.zeros(3)
    onp.add.at(x, [0, 0, 2], 1)
    assert x.tolist() == [2, 0, 1]


def test_official_asarray_copies_the_values():
    values = onp.asarray(of(A))
    assert values.dtype == A.dtype
    onp.testing.assert_array_equal(values, A)


def test_result_types_are_those_of_operations():
    assert np.result_type(np.ones(2, dtype="int8"), np.ones(2)) == onp.float32
    assert np.result_type(np.ones(2, dtype="int64"), 1.5) == onp.float32
    assert np.result_type("int8", "uint8") == onp.int16
    assert np.promote_types("float16", "int64") == onp.float16
    assert np.can_cast("int8", "int16")
    assert not np.can_cast("float32", "int8")
    assert np.isdtype(np.float32, "real floating")
    assert np.isdtype(np.int8, ("bool", "integral"))
    with pytest.raises(ValueError, match="kind must be"):
        np.isdtype(np.int8, "number")


class TestArrayAPI:
    xp = np.array_api

    def test_arrays_have_the_namespace(self):
        assert np.ones(2).__array_namespace__() is self.xp
        assert np.ones(2).__array_namespace__(api_version="2023.12") is self.xp
        with pytest.raises(ValueError, match="api_version"):
            np.ones(2).__array_namespace__(api_version="1999.12")

    def test_integers_are_int64_by_default(self):
        xp = self.xp
        for made in (xp.arange(3), xp.asarray([1, 2]), xp.asarray(3), xp.full((2,), 7)):
            assert made.dtype == xp.int64
        for made in (xp.arange(3.0), xp.asarray([1.0]), xp.zeros(2), xp.linspace(0, 1, 3)):
            assert made.dtype == xp.float32
        assert xp.asarray([True]).dtype == xp.bool
        assert xp.arange(5, 2).shape == (0,)

    def test_functions_of_the_standard_exist(self):
        missing = [name for name in self.xp.__all__ if not hasattr(self.xp, name)]
        assert not missing

    def test_sums_of_small_integers_are_wide(self):
        xp = self.xp
        x = xp.full((300,), 100, dtype=xp.int8)
        assert xp.sum(x).dtype == xp.int64
        assert int(xp.sum(x)) == 30000
        assert xp.cumulative_sum(x, include_initial=True).shape == (301,)

    def test_sorting_can_descend_and_keeps_the_order_of_equals(self):
        xp = self.xp
        x = xp.asarray([2, 3, 2, 1])
        assert xp.sort(x, descending=True).tolist() == [3, 2, 2, 1]
        assert xp.argsort(x, descending=True).tolist() == [1, 0, 2, 3]

    def test_info_describes_the_namespace(self):
        info = self.xp.__array_namespace_info__()
        assert info.default_dtypes()["integral"] == onp.int64
        assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
        assert mx.cpu() in info.devices()
        assert not {"fft"} & set(dir(self.xp))

    def test_limits_are_those_of_dtypes_and_arrays(self):
        xp = self.xp
        assert xp.iinfo(xp.asarray([1])).max == xp.iinfo(xp.int64).max == 2**63 - 1
        assert xp.finfo(xp.ones(2)).bits == xp.finfo(xp.float32).bits == 32
        assert xp.linalg.trace(xp.ones((2, 2), dtype=xp.uint8)).dtype == xp.uint64

    def test_dlpack_shares_memory_unless_a_copy_is_asked_for(self):
        x = self.xp.zeros(3)
        self.xp.from_dlpack(x, copy=True)[0] = 1
        assert x.tolist() == [0, 0, 0]
        self.xp.from_dlpack(x)[0] = 1
        assert x.tolist() == [1, 0, 0]

    def test_linalg_returns_named_results(self):
        a = self.xp.asarray([[2.0, 1], [1, 3]])
        assert self.xp.linalg.slogdet(a).sign.item() == 1
        assert self.xp.linalg.svd(a).Vh.shape == (2, 2)
        assert self.xp.linalg.qr(a).R.shape == (2, 2)


def test_scikit_learn_runs_on_np_arrays():
    sklearn = pytest.importorskip("sklearn")
    pytest.importorskip("scipy", "1.14")
    import os

    if os.environ.get("SCIPY_ARRAY_API") != "1":
        pytest.skip("SCIPY_ARRAY_API=1 must be set before SciPy is imported")
    from sklearn.metrics import accuracy_score

    with sklearn.config_context(array_api_dispatch=True):
        truth, guess = np.array_api.asarray([0, 1, 1, 0]), np.array_api.asarray([0, 1, 0, 0])
        assert float(accuracy_score(truth, guess)) == 0.75
