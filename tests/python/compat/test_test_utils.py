"""mx.test_utils: comparisons, random data, generators, files."""

from __future__ import annotations

import gzip
import os
import struct

import mxlite as mx
import numpy as np
import pytest
from mxlite import test_utils as tu
from numpy.testing import assert_raises_regex
from processes import run_python


def test_it_is_imported_with_its_first_use():
    code = "import sys, mxlite as mx; print('mxlite.test_utils' in sys.modules, mx.test_utils.same)"
    assert run_python("-c", code).stdout.startswith("False <function same")


def test_tolerances_are_those_of_the_less_precise_dtype():
    half, single = np.ones(1, np.float16), mx.nd.ones(1)
    assert tu.get_tols(half, single, None, None) == (1e-2, 1e-1)
    assert tu.get_tols(single, 1.0, None, None) == (1e-4, 1e-3)
    assert tu.get_tols(half, single, 0.5, {np.float16: 3, np.float32: 4}) == (0.5, 4)
    assert tu.get_tols([1], [2], None, None) == (0, 0)
    assert tu.get_rtol() == 1e-5 and tu.get_atol() == 1e-20 and tu.get_etol() == 0
    assert tu.default_numeric_eps()[np.dtype("float32")] == 2.0**-9
    assert tu.effective_dtype(mx.nd.ones(1, dtype="float16")) == np.float16
    assert tu.default_dtype() is np.float32


def test_almost_equal_arrays_pass():
    a = np.float32([1, 2, 1000])
    tu.assert_almost_equal(mx.nd.array(a), a * (1 + 5e-5))
    tu.assert_almost_equal(a, np.float64(a) + 5e-4)  # the tolerance of float32
    tu.assert_almost_equal(np.float32([np.inf, 1]), np.float32([np.inf, 1]))
    tu.assert_almost_equal(np.float32([np.nan]), np.float32([np.nan]), equal_nan=True)
    tu.assert_almost_equal(np.ones((2, 3)), np.ones(3))
    tu.assert_almost_equal(np.ones((2, 3)), 1.0)
    tu.assert_almost_equal(np.zeros((0, 3)), np.zeros((0, 3)))
    assert tu.almost_equal(a, a + np.float32(1e-4)) and not tu.almost_equal(a, a + 1)
    assert not tu.almost_equal(np.ones(2), np.ones(3))


def test_the_worst_element_is_named(capsys):
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = a.copy()
    b[1, 2] += 1
    b[2, 3] = 0
    with pytest.raises(AssertionError) as failure:
        tu.assert_almost_equal(mx.nd.array(a), b, names=("x", "y"))
    text = str(failure.value)
    assert "Error 10999.99" in text and "(mismatch 16.666667%)" in text
    assert "Location of maximum error: (2, 3), x=11.00000000, y=0.00000000" in text
    assert "rtol=1.000000e-04, atol=1.000000e-03" in text and "ACTUAL: array(" in text
    printed = capsys.readouterr().out
    assert "*** Maximum errors for vector of size 12:  rtol=0.0001, atol=0.001" in printed
    assert "  2: Error 588.2352" in printed and "(1, 2), x=6.00000000, y=7.00000000" in printed


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.float32([np.nan]), np.float32([np.nan])),
        (np.float32([np.inf]), np.float32([-np.inf])),
        (np.float32([1, np.nan]), np.float32([1, 2])),
        (np.int64([2**62]), np.int64([1])),
        (np.array([True, False]), np.array([True, True])),
        (np.uint8([0]), np.uint8([255])),
        (np.ones((2, 3)), np.ones((4, 3))),
        (np.float32([1]), np.float32([np.inf])),
    ],
)
def test_different_arrays_do_not_pass(a, b):
    with pytest.raises(AssertionError):
        tu.assert_almost_equal(a, b)


def test_shapes_must_be_equal_without_broadcasting():
    with pytest.raises(AssertionError, match=r"a.shape = \(2, 3\) and b.shape = \(3,\)"):
        tu.assert_almost_equal(np.ones((2, 3)), np.ones(3), use_broadcast=False)


def test_a_share_of_the_elements_may_differ():
    a, b = np.zeros(10), np.zeros(10)
    b[3] = 1
    tu.assert_almost_equal_with_err(a, b, etol=0.1)
    with pytest.raises(AssertionError, match=r"mismatch 10\.0"):
        tu.assert_almost_equal_with_err(a, b, etol=0.09)
    tu.assert_almost_equal_ignore_nan(np.array([np.nan, 1]), np.array([5, 1.0]))


def test_same_and_shared_memory():
    x = mx.nd.array([1, 2, 3])
    assert tu.same(x, np.float32([1, 2, 3])) and not tu.same(x, x.reshape((3, 1)))
    assert tu.same_array(x, x.reshape((3, 1))) and not tu.same_array(x, x.copy())
    assert tu.same(x, [1, 2, 3])


def test_assert_exception():
    tu.assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="int did not raise ValueError"):
        tu.assert_exception(int, ValueError, "1")
    with pytest.raises(TypeError):
        tu.assert_exception(int, ValueError, None)
    tu.compare_ndarray_tuple((mx.nd.ones(2), None), (mx.nd.ones(2), None))
    with pytest.raises(AssertionError):
        ones, other = (mx.nd.ones(2), (mx.nd.ones(1),)), (mx.nd.ones(2), (mx.nd.zeros(1),))
        tu.compare_ndarray_tuple(ones, other)
    with pytest.raises(AssertionError, match="one state is None, the other NDArray"):
        tu.compare_ndarray_tuple((None,), (mx.nd.ones(2),))


def test_random_shapes_and_arrays():
    assert len(tu.rand_shape_nd(4)) == 4 and len(tu.rand_shape_3d()) == 3
    assert all(1 <= d <= 3 for _ in range(50) for d in tu.rand_shape_2d(3, 3))
    assert 0 in {d for _ in range(50) for d in tu.rand_shape_2d(2, 2, allow_zero_size=True)}
    points = {tu.rand_coord_2d(0, 2, 5, 7) for _ in range(100)}
    assert points == {(0, 5), (0, 6), (1, 5), (1, 6)}
    one, (two, three) = tu.random_arrays((2, 3)), tu.random_arrays((2,), ())
    assert one.shape == (2, 3) and one.dtype == two.dtype == three.dtype == np.float32
    (uniform,) = tu.random_uniform_arrays((1000,), low=2, high=3, dtype="float16")
    assert uniform.dtype == np.float16 and 2 <= uniform.min() < uniform.max() <= 3
    assert sorted(tu.random_sample([1, 2, 3], 3)) == [1, 2, 3]
    array = tu.rand_ndarray((2, 3), dtype="float64")
    assert isinstance(array, mx.nd.NDArray) and array.dtype == np.float64


def test_matrices():
    q = tu.new_orthonormal_matrix_2d(4)
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-12)
    symmetric = tu.new_sym_matrix_with_real_eigvals_nd((2, 3, 3))
    np.testing.assert_allclose(symmetric, np.swapaxes(symmetric, 1, 2), atol=1e-12)
    matrices = tu.new_matrix_with_real_eigvals_nd((5, 4, 4))
    eigenvalues = np.linalg.eigvals(matrices)
    assert np.abs(eigenvalues.imag).max() < 1e-6
    assert tu.new_matrix_with_real_eigvals_nd((0, 2, 2)).shape == (0, 2, 2)
    assert_raises_regex(ValueError, "square", tu.new_matrix_with_real_eigvals_nd, (2, 3))
    assert tu.same(tu.get_identity_mat_batch(2), np.stack([np.eye(2)] * 2))
    assert tu.same(tu.create_2d_tensor(3, 2), [[0, 0], [1, 1], [2, 2]])
    assert tu.create_vector(4).dtype == np.int64


def test_reductions_in_numpy():
    a = np.arange(24.0).reshape(2, 3, 4)
    assert tu.same(tu.np_reduce(a, (0, -1), True, np.sum), a.sum((0, 2), keepdims=True))
    assert tu.same(tu.np_reduce(a, None, False, np.max), a.max())
    assert tu.same(tu.np_reduce(a, 1, False, np.mean), a.mean(1))
    assert tu.same(tu.collapse_sum_like(a, (3, 1)), a.sum((0, 2)).reshape(3, 1))
    assert_raises_regex(ValueError, "is not a broadcast", tu.collapse_sum_like, a, (2, 1))
    assert tu.same(tu.assign_each(a, lambda x: x + 1), a + 1)
    assert tu.same(tu.assign_each2(a, a, lambda x, y: x * y), a * a)


def test_generators_are_checked_by_moments_and_chi_square():
    stats = pytest.importorskip("scipy.stats")

    def normal(count):
        return mx.nd.random.normal(0, 2, shape=count)

    buckets, probs = tu.gen_buckets_probs_with_ppf(lambda p: stats.norm.ppf(p, 0, 2), 5)
    assert buckets[0][0] == -np.inf and buckets[4][1] == np.inf and probs == [0.2] * 5
    p, observed, expected = tu.chi_square_check(normal, buckets, probs, 10000)
    assert sum(observed) == 10000 and expected == [2000] * 5
    reference = stats.chisquare(observed, [2000] * 5).pvalue
    assert p == pytest.approx(reference)
    assert len(tu.verify_generator(normal, buckets, probs, 10000, nrepeat=3)) == 3
    with pytest.raises(AssertionError, match="0 of 3 chi-square tests passed"):
        tu.verify_generator(lambda n: normal(n) + 1, buckets, probs, 10000, nrepeat=3)
    assert tu.mean_check(normal, 0, 2, 10000) and not tu.mean_check(normal, 0.2, 2, 10000)
    assert tu.var_check(normal, 2, 10000) and not tu.var_check(normal, 2.2, 10000)


def test_discrete_generators():
    pytest.importorskip("scipy.stats")

    def dice(count):
        return mx.nd.random.randint(1, 7, shape=count)

    tu.verify_generator(dice, [1, 2, 3, 4, 5, 6], [1 / 6] * 6, 10000, 5)
    with pytest.raises(AssertionError, match="buckets"):
        tu.verify_generator(dice, [1, 2, 3, 4, 5, 6], [0.1] * 5 + [0.5], 10000, 5)
    assert_raises_regex(ValueError, "got 2 and 1", tu.chi_square_check, dice, [1, 2], [1])


def test_chi_square_without_scipy_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ImportError, match="pip install scipy"):
        tu.chi_square_check(lambda n: np.random.rand(n), [(0, 0.5), (0.5, 1)], [0.5, 0.5], 100)


def test_environment_variables_are_restored(monkeypatch):
    monkeypatch.setenv("MXLITE_A", "1")
    monkeypatch.delenv("MXLITE_B", raising=False)
    with pytest.raises(KeyError), tu.environment({"MXLITE_A": None, "MXLITE_B": 2}):
        assert "MXLITE_A" not in os.environ and os.environ["MXLITE_B"] == "2"
        raise KeyError
    assert os.environ["MXLITE_A"] == "1" and "MXLITE_B" not in os.environ
    with tu.environment("MXLITE_A", "3"):
        assert os.environ["MXLITE_A"] == "3"
    with pytest.raises(ValueError, match="name and a value"):
        tu.environment("MXLITE_A").__enter__()


def test_stderr_is_discarded_and_comes_back(capfd):
    with tu.discard_stderr():
        os.write(2, b"lost")
    os.write(2, b"kept")
    assert capfd.readouterr().err == "kept"


def test_retry_repeats_failed_assertions_only():
    calls = []

    @tu.retry(3)
    def passes_at_the_third():
        calls.append(1)
        assert len(calls) == 3

    def fails_always():
        calls.append(2)
        raise AssertionError("always")

    passes_at_the_third()
    with pytest.raises(AssertionError):
        tu.retry(2)(fails_always)()
    assert calls[3:] == [2, 2]
    with pytest.raises(ValueError):
        tu.retry(0)


def test_contexts():
    assert tu.default_context() == mx.current_context()
    assert list(tu.list_gpus()) == list(range(mx.num_gpus()))
    assert not tu.has_tvm_ops() and tu.is_op_runnable() in (True, False)
    with mx.cpu(0):
        tu.set_default_context(mx.cpu(2))
        assert tu.default_context() == mx.cpu(2) and mx.nd.ones(1).context == mx.cpu(2)


def test_dummy_iterator_gives_its_first_batch():
    class Batches:
        provide_data, provide_label, batch_size = ["d"], ["l"], 4
        count = 0

        def __next__(self):
            self.count += 1
            return self.count

    dummy = tu.DummyIter(Batches())
    assert [next(dummy), dummy.next(), next(iter(dummy))] == [1, 1, 1]
    assert dummy.batch_size == 4 and dummy.provide_data == ["d"]


def idx(values: np.ndarray) -> bytes:
    """The bytes of an IDX file."""
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def test_mnist_is_read_from_local_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    assert_raises_regex(FileNotFoundError, "train-images-idx3-ubyte.gz.*data", tu.get_mnist)
    (tmp_path / "data").mkdir()
    images = np.random.randint(0, 256, (5, 28, 28))
    for name, values in {
        "train-images-idx3-ubyte.gz": images,
        "train-labels-idx1-ubyte.gz": np.arange(5),
        "t10k-images-idx3-ubyte": images[:2],
        "t10k-labels-idx1-ubyte": np.arange(2),
    }.items():
        content = idx(values)
        packed = gzip.compress(content) if name.endswith("gz") else content
        (tmp_path / "data" / name).write_bytes(packed)
    mnist = tu.get_mnist()
    assert mnist["train_data"].shape == (5, 1, 28, 28) and mnist["train_data"].dtype == np.float32
    np.testing.assert_array_equal(np.rint(mnist["train_data"][:, 0] * 255), images)
    assert mnist["test_label"].tolist() == [0, 1]
    tu.get_mnist_ubyte()
    train, test = tu.get_mnist_iterator(2, (784,))
    assert train.provide_data == [("data", (2, 784))]
    assert tu.get_mnist_iterator(1, (1, 28, 28))[1].provide_data == [("data", (1, 1, 28, 28))]
    assert len(list(train)) == 2
    assert len(list(test)) == 1
    assert (tmp_path / "data" / "train-images-idx3-ubyte").read_bytes() == idx(images)
    (tmp_path / "data" / "t10k-labels-idx1-ubyte").write_bytes(idx(np.arange(2))[:-1])
    assert_raises_regex(
        mx.base.FileFormatError, "number of values must be 2 for shape", tu.get_mnist
    )


def test_other_data_sets_name_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for get in (tu.get_cifar10, tu.get_mnist_pkl, tu.get_im2rec_path):
        if get is tu.get_im2rec_path and mx.__file__ and _has_im2rec():
            assert os.path.isfile(get())
            continue
        assert_raises_regex(FileNotFoundError, get.__name__, get)
    assert tu.download_model("resnet") == (None, 0)


def _has_im2rec() -> bool:
    return os.path.isfile(os.path.join(os.path.dirname(mx.__file__), "tools", "im2rec.py"))


def test_archives_are_unpacked(tmp_path):
    import bz2
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inside.txt", "text")
    tu.get_zip_data(str(tmp_path), "http://localhost/none", "a.zip")
    assert (tmp_path / "inside.txt").read_text() == "text"
    (tmp_path / "b.bz2").write_bytes(bz2.compress(b"bytes"))
    tu.get_bz2_data(str(tmp_path), "b.txt", "http://localhost/none", "b.bz2")
    assert (tmp_path / "b.txt").read_bytes() == b"bytes" and not (tmp_path / "b.bz2").exists()


def test_optimizers_are_compared():
    def sgd(momentum):
        return mx.optimizer.SGD(learning_rate=0.1, momentum=momentum, wd=0.01)

    tu.compare_optimizer(sgd(0.9), sgd(0.9), (3, 4), "float32")
    tu.compare_optimizer(sgd(0.9), sgd(0.9), [(3, 4), (2,)], "float32", ntensors=2)
    with pytest.raises(AssertionError):
        adam = mx.optimizer.Adam(learning_rate=0.1)
        tu.compare_optimizer(sgd(0.0), adam, (3, 4), "float32", compare_states=False)


def test_hybridized_blocks_are_compared():
    def build(prefix="", params=None):
        net = mx.gluon.nn.HybridSequential(prefix=prefix, params=params)
        with net.name_scope():
            net.add(mx.gluon.nn.Dense(4, activation="tanh"), mx.gluon.nn.Dense(2))
        return net

    tu.check_gluon_hybridize_consistency(build, [mx.nd.random.normal(shape=(3, 5))])

    class Differs(mx.gluon.HybridBlock):
        def forward(self, x):
            return x * (2 if self._active else 1)

    with pytest.raises(AssertionError, match="eager"):
        tu.check_gluon_hybridize_consistency(Differs, [mx.nd.ones(3)], test_grad=False)
