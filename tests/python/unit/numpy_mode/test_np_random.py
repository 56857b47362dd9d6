"""mx.np.random: distributions, shapes, gradients to parameters, seeds, errors."""

import mxlite as mx
import numpy as onp
import pytest
from mxlite import autograd, gluon

np, random = mx.np, mx.np.random

COUNT = 20000
# name -> (arguments, mean, standard deviation)
DISTRIBUTIONS = {
    "uniform": ((1.0, 3.0), 2, 2 / 12**0.5),
    "normal": ((1.0, 2.0), 1, 2),
    "lognormal": ((0.0, 0.5), onp.exp(0.125), onp.exp(0.125) * onp.expm1(0.25) ** 0.5),
    "logistic": ((1.0, 2.0), 1, 2 * onp.pi / 3**0.5),
    "gumbel": ((1.0, 2.0), 1 + 2 * onp.euler_gamma, 2 * onp.pi / 6**0.5),
    "laplace": ((1.0, 2.0), 1, 2 * 2**0.5),
    "exponential": ((2.0,), 2, 2),
    "rayleigh": ((2.0,), 2 * (onp.pi / 2) ** 0.5, 2 * (2 - onp.pi / 2) ** 0.5),
    "weibull": ((2.0,), onp.pi**0.5 / 2, (1 - onp.pi / 4) ** 0.5),
    "pareto": ((5.0,), 0.25, (5 / 3) ** 0.5 / 4),
    "power": ((3.0,), 0.75, (3 / 80) ** 0.5),
    "gamma": ((3.0, 2.0), 6, 12**0.5),
    "chisquare": ((3.0,), 3, 6**0.5),
    "beta": ((2.0, 3.0), 0.4, 0.2),
    "poisson": ((4.0,), 4, 2),
    "bernoulli": ((0.3,), 0.3, 0.21**0.5),
}
PATHWISE = "normal lognormal logistic gumbel laplace exponential rayleigh weibull pareto".split()
WITHOUT_GRADIENT = "uniform power gamma chisquare beta".split()


@pytest.mark.parametrize("as_arrays", [False, True])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_have_the_moments_of_the_distribution(name, as_arrays):
    mx.random.seed(7)
    arguments, mean, deviation = DISTRIBUTIONS[name]
    if as_arrays:
        arguments = [np.full((COUNT,), a) for a in arguments]
    draws = getattr(random, name)(*arguments, size=(2, COUNT))
    assert draws.shape == (2, COUNT)
    assert draws.dtype == (onp.int64 if name == "poisson" else onp.float32)
    values = draws.asnumpy().astype("float64")
    error = 5 * deviation / (2 * COUNT) ** 0.5
    onp.testing.assert_allclose(values.mean(), mean, atol=error)
    onp.testing.assert_allclose(values.std(), deviation, rtol=0.1)
    assert abs(onp.corrcoef(values)[0, 1]) < 0.05


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_shapes_follow_size_and_parameters(name):
    sampler, (arguments, *_) = getattr(random, name), DISTRIBUTIONS[name]
    arrays = [np.full((2, 1), arguments[0]), *(np.full((3,), a) for a in arguments[1:])]
    own = (2, 3) if len(arrays) > 1 else (2, 1)
    assert type(sampler(*arguments)) is np.ndarray
    assert sampler(*arguments).shape == ()
    assert sampler(*arguments, size=3).shape == (3,)
    assert sampler(*arguments, size=(2, 0)).shape == (2, 0)
    assert sampler(*arrays).shape == own
    assert sampler(*(np.full((1,), a) for a in arguments), size=(4, 0, 5)).shape == (4, 0, 5)
    assert sampler(*arrays, size=(4, 2, 3)).shape == (4, 2, 3)
    with pytest.raises(ValueError, match="size must hold|could not be broadcast"):
        sampler(*arrays, size=(3, 1))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_hybridized_draws_may_have_no_elements(name):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return x + getattr(random, name)(*DISTRIBUTIONS[name][0], size=(4, 0, 5))

    net = Net()
    net.hybridize()
    assert net(np.ones(())).shape == (4, 0, 5)


@pytest.mark.parametrize("name", ["uniform", "normal", "gamma", "beta", "chisquare", "lognormal"])
def test_dtype_is_that_of_the_result(name):
    arguments = DISTRIBUTIONS[name][0]
    for dtype in ("float16", "float32", "float64"):
        assert getattr(random, name)(*arguments, size=2, dtype=dtype).dtype == onp.dtype(dtype)


def parameters(name):
    return [np.full((2, 3), a, dtype="float64") for a in DISTRIBUTIONS[name][0]]


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("name", PATHWISE)
def test_draws_have_gradients_to_parameters(name, hybrid):
    class Net(gluon.HybridBlock):
        def forward(self, *values):
            return getattr(random, name)(*values, dtype=onp.float64) if name in (
                "normal", "lognormal", "laplace") else getattr(random, name)(*values)  # fmt: skip

    net = Net()
    if hybrid:
        net.hybridize()

    def run(values):
        mx.random.seed(5)
        return net(*values)

    for k in range(len(parameters(name))):
        values = parameters(name)
        net(*values)
        values[k].attach_grad()
        with autograd.record():
            draws = run(values)
        draws.backward()
        moved = [v + 1e-2 * (i == k) for i, v in enumerate(parameters(name))]
        back = [v - 1e-2 * (i == k) for i, v in enumerate(parameters(name))]
        slope = (run(moved).asnumpy() - run(back).asnumpy()) / 2e-2
        onp.testing.assert_allclose(values[k].grad.asnumpy(), slope, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_other_distributions_have_no_gradient(name):
    values = parameters(name)
    for v in values:
        v.attach_grad()
    with autograd.record():
        loss = getattr(random, name)(*values).sum() + sum(v.sum() for v in values)
    loss.backward()
    for v in values:
        onp.testing.assert_array_equal(v.grad.asnumpy(), 1)


def test_seeds_give_the_values_of_nd():
    for seed in (mx.random.seed, random.seed):
        seed(3)
        found = random.uniform(-1, 2, (3, 2)).asnumpy()
        mx.random.seed(3)
        onp.testing.assert_array_equal(found, mx.nd.random.uniform(-1, 2, (3, 2)).asnumpy())


INVALID = [
    lambda: random.normal(0, -1),
    lambda: random.normal(np.zeros(2), np.array([1.0, -1.0])),
    lambda: random.lognormal(0, -1),
    lambda: random.gumbel(0, -1),
    lambda: random.logistic(0, np.array([-1.0])),
    lambda: random.exponential(-1),
    lambda: random.rayleigh(-1),
    lambda: random.weibull(-1),
    lambda: random.weibull(0),
    lambda: random.pareto(0),
    lambda: random.power(0),
    lambda: random.gamma(-1, 2),
    lambda: random.gamma(1, 0),
    lambda: random.chisquare(0),
    lambda: random.beta(1, 0),
    lambda: random.poisson(-1),
    lambda: random.bernoulli(1.5),
    lambda: random.bernoulli(),
    lambda: random.bernoulli(0.5, 0.5),
    lambda: random.randint(3, 3),
    lambda: random.randint(0, 300, dtype="int8"),
    lambda: random.choice(0),
    lambda: random.choice(5, 6, replace=False),
    lambda: random.choice(np.ones((2, 2))),
    lambda: random.choice(2, p=np.array([0.5, 0.2])),
    lambda: random.choice(2, p=np.array([1.0])),
    lambda: random.choice(3, 3, replace=False, p=np.array([0.5, 0.5, 0.0])),
    lambda: random.multinomial(3, [0.9, 0.9, 0.1]),
    lambda: random.multinomial(-1, [1.0]),
    lambda: random.multinomial(3, [-0.5, 1.0]),
    lambda: random.multivariate_normal(np.zeros(2), np.ones((2, 3))),
]


@pytest.mark.parametrize("call", INVALID)
def test_invalid_parameters_are_value_errors(call):
    with pytest.raises(ValueError, match="^random\\."):
        call()


def test_out_receives_the_draws():
    out = np.zeros((2, 3))
    for call in (random.uniform, random.normal, random.gumbel, random.exponential):
        assert call(out=out) is out
        assert len(set(out.asnumpy().flat)) == 6
    picks = np.zeros((4,), dtype="int64")
    assert random.randint(5, 9, out=picks) is picks
    assert set(picks.asnumpy()) <= {5, 6, 7, 8}


def test_randint_covers_its_range():
    draws = random.randint(-2, 3, 500)
    assert draws.dtype == onp.int64
    assert set(draws.asnumpy()) == {-2, -1, 0, 1, 2}
    assert random.randint(4).shape == ()
    assert random.randint(2**40, 2**40 + 1, 3).asnumpy().tolist() == [2**40] * 3
    assert random.randint(0, 200, 3, dtype="uint8").dtype == onp.uint8


def test_choice_draws_with_and_without_replacement():
    assert sorted(random.choice(5, 5, replace=False).asnumpy()) == list(range(5))
    p = np.array([0.5, 0.0, 0.3, 0.2])
    kept = [random.choice(4, 2, replace=False, p=p).asnumpy() for _ in range(200)]
    assert all(len(set(pair)) == 2 and 1 not in pair for pair in kept)
    first = onp.bincount([pair[0] for pair in kept], minlength=4)
    assert first[0] > first[2] > 0 == first[1]
    many = random.choice(4, (100, 100), p=p)
    assert many.dtype == onp.int64
    share = onp.bincount(many.asnumpy().ravel(), minlength=4) / 1e4
    onp.testing.assert_allclose(share, [0.5, 0, 0.3, 0.2], atol=0.03)
    tenths = np.full((10,), 0.1, dtype="float16")  # their sum is 0.9998
    assert random.choice(10, p=tenths).shape == ()
    values = np.array([1.5, 2.5])
    assert set(random.choice(values, (3, 4)).asnumpy().flat) <= {1.5, 2.5}
    assert random.choice(values).dtype == onp.float32


def test_multinomial_counts_all_trials():
    counts = random.multinomial(1000, np.array([0.2, 0.3, 0.5]), size=(2, 3))
    assert counts.shape == (2, 3, 3)
    assert counts.dtype == onp.int64
    assert (counts.asnumpy().sum(-1) == 1000).all()
    onp.testing.assert_allclose(counts.asnumpy().mean((0, 1)), [200, 300, 500], atol=60)
    assert random.multinomial(0, [0.5, 0.5]).asnumpy().tolist() == [0, 0]


def test_multivariate_normal_has_mean_covariance_and_gradients():
    mx.random.seed(1)
    mean, cov = np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    for parameter in (mean, cov):
        parameter.attach_grad()
    with autograd.record():
        draws = random.multivariate_normal(mean, cov, size=(COUNT,))
        loss = (draws**2).mean(0).sum()
    loss.backward()
    onp.testing.assert_allclose(draws.asnumpy().mean(0), [1, -1], atol=0.05)
    onp.testing.assert_allclose(onp.cov(draws.asnumpy().T), cov.asnumpy(), atol=0.08)
    # The loss is about mean @ mean + trace(cov).
    onp.testing.assert_allclose(mean.grad.asnumpy(), [2, -2], atol=0.1)
    onp.testing.assert_allclose(cov.grad.asnumpy(), onp.eye(2), atol=0.1)
    batch = random.multivariate_normal(np.zeros((3, 2)), np.array(onp.eye(2)), size=4)
    assert batch.shape == (4, 3, 2)
    assert random.multivariate_normal(mean, cov).shape == (2,)
    halves = random.multivariate_normal(mean.astype("float16"), cov.astype("float16"))
    assert halves.dtype == onp.float16


def test_shuffle_is_in_place_and_permutation_a_copy():
    x = np.arange(20).reshape((10, 2))
    assert random.shuffle(x) is None
    assert sorted(x.asnumpy()[:, 0]) == list(range(0, 20, 2))
    assert (x.asnumpy()[:, 1] - x.asnumpy()[:, 0] == 1).all()
    before = x.asnumpy()
    moved = random.permutation(x)
    onp.testing.assert_array_equal(x.asnumpy(), before)
    assert sorted(moved.asnumpy()[:, 0]) == list(range(0, 20, 2))
    assert sorted(random.permutation(5).asnumpy()) == list(range(5))


def test_batches_are_in_front_of_the_parameters_shape():
    low = np.zeros((3, 1))
    assert random.uniform_n(low, np.ones((4,)), batch_shape=(2,)).shape == (2, 3, 4)
    assert random.normal_n(low, 1.0, batch_shape=(5, 2)).shape == (5, 2, 3, 1)
    assert random.normal_n(batch_shape=2).shape == (2,)


def test_bernoulli_accepts_logits():
    mx.random.seed(2)
    draws = random.bernoulli(logit=np.full((COUNT,), 1.0), dtype="int32")
    assert draws.dtype == onp.int32
    onp.testing.assert_allclose(draws.asnumpy().mean(), 1 / (1 + onp.exp(-1)), atol=0.02)


def test_rand_and_randn_take_dimensions():
    assert random.rand(2, 3).shape == (2, 3)
    assert random.randn(2).shape == (2,)
    assert random.rand().shape == ()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_uniform_excludes_its_upper_bound(dtype):
    low = np.full((100_000,), 1024, dtype=dtype)
    drawn = np.random.uniform(low, low + 2, dtype=dtype).asnumpy()
    assert drawn.min() >= 1024 and drawn.max() < 1026
    turned = np.random.uniform(low + 2, low, dtype=dtype).asnumpy()
    assert turned.min() > 1024 and turned.max() <= 1026
