"""Random numbers element by element: a generator with a known state gives known numbers.

The model below is the counter-based generator Philox 4x32 with 10 rounds (Salmon et al., 2011).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import mxlite as mx
import numpy as np
import pytest

SEED = 0x1234_5678_9ABC
_Z = SEED + 0x9E37_79B9_7F4A_7C15
_Z = (_Z ^ _Z >> 30) * 0xBF58_476D_1CE4_E5B9 % 2**64
_Z = (_Z ^ _Z >> 27) * 0x94D0_49BB_1331_11EB % 2**64
KEY = _Z ^ _Z >> 31  # splitmix64 of the seed
BLOCK = 512  # elements that are made together


def philox(counter: int, stream: int = 0) -> list[int]:
    """Return the four words of a counter."""
    word = 0xFFFFFFFF
    c = [counter & word, counter >> 32, stream & word, stream >> 32]
    k = [KEY & word, KEY >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & word, p >> 32 ^ c[3] ^ k[1], p & word]
        k = [(k[0] + 0x9E3779B9) & word, (k[1] + 0xBB67AE85) & word]
    return c


def doubles(counter: int) -> Iterator[float]:
    """Yield the uniform numbers of one element."""
    stream = 0
    while True:
        words = philox(counter, stream)
        stream += 1
        for high, low in (words[:2], words[2:]):
            yield ((high << 21) ^ (low >> 11)) * 2.0**-53


def uniform_floats(count: int) -> np.ndarray:
    """Return numbers with 24 bits; word w of counter j belongs to element ``w * 128 + j``."""
    blocks = []
    for block in range(-(-count // BLOCK)):
        words = [philox(block * 128 + j) for j in range(128)]
        blocks += [words[j][w] for w in range(4) for j in range(128)]
    return (np.array(blocks[:count]) >> 8) * 2.0**-24


def uniform_doubles(count: int) -> np.ndarray:
    """Return numbers with 53 bits; pair w of counter j belongs to element ``w * 256 + j``."""
    blocks: list[float] = []
    for block in range(-(-count // BLOCK)):
        pairs = [list(zip(range(2), doubles(block * 256 + j))) for j in range(256)]
        blocks += [pairs[j][w][1] for w in range(2) for j in range(256)]
    return np.array(blocks[:count])


def box_muller(uniform: np.ndarray, half: int) -> np.ndarray:
    """Return normal numbers; neighbours at a distance of ``half`` share radius and angle."""
    pairs = uniform.reshape(-1, 2, half)
    radius, angle = np.sqrt(-2 * np.log(1 - pairs[:, 0])), 2 * np.pi * pairs[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()


@pytest.fixture(autouse=True)
def known_state(fixed_seed: None) -> None:
    mx.random.seed(SEED, ctx=mx.cpu(0))


MODELS = {"float32": (uniform_floats, 128, 1e-6), "float64": (uniform_doubles, 256, 1e-15)}


@pytest.mark.parametrize("dtype", MODELS)
@pytest.mark.parametrize("count", [1, 511, 512, 1300])
def test_uniform_numbers(count: int, dtype: str) -> None:
    uniform, _, limit = MODELS[dtype]
    got = mx.nd.random.uniform(-1, 3, shape=(count,), dtype=dtype).asnumpy()
    np.testing.assert_allclose(got, -1 + 4 * uniform(count), rtol=limit, atol=limit)


@pytest.mark.parametrize(("dtype", "steps"), [("float16", 2**11), ("bfloat16", 2**8)])
def test_uniform_halves_keep_their_bits(dtype: str, steps: int) -> None:
    want = np.maximum(np.floor(uniform_floats(700) * steps) / steps, 0.5 / steps)
    got = mx.nd.random.uniform(shape=(700,), dtype=dtype).astype("float32").asnumpy()
    np.testing.assert_array_equal(got, want)


def test_uniform_numbers_are_not_0() -> None:
    """Word 0 of this counter is 0 to 24 bits."""
    counter = 36_858_136
    assert philox(counter)[0] >> 8 == 0
    mx._core.set_random_states(0, [(mx.cpu().device_typeid, 0, KEY, counter)])
    assert mx.nd.random.uniform(shape=(1,)).asscalar() == 2.0**-25


DTYPES = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["numbers", "arrays", "like"])
@pytest.mark.parametrize(("low", "steps"), [(1, 4), (-2, 4), (-1, 3)])
def test_uniform_numbers_lie_between_the_bounds(
    dtype: str, form: str, low: int, steps: int
) -> None:
    """There are three numbers between these bounds; below -1 steps are half as long as above."""
    high = low + steps * DTYPES[dtype]
    if form == "numbers":
        draws = mx.nd.random.uniform(low, high, shape=(4000,), dtype=dtype)
    elif form == "like":
        draws = mx.nd.random.uniform_like(mx.nd.zeros((4000,), dtype=dtype), low=low, high=high)
    else:
        bounds = (mx.nd.array([value], dtype="float64") for value in (low, high))
        draws = mx.nd.random.uniform(*bounds, shape=(4000,), dtype=dtype)
    found = np.unique(draws.astype("float64").asnumpy())
    step = DTYPES[dtype] if low > 0 else DTYPES[dtype] / (2 if low == -1 else 1)
    want = np.arange(low, high, step)[1:]
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_uniform_numbers_between_neighbors_and_equal_bounds_are_low(dtype: str) -> None:
    for high in (1, 1 + DTYPES[dtype]):
        draws = mx.nd.random.uniform(1, high, shape=(1000,), dtype=dtype).astype("float64")
        assert (draws.asnumpy() == 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithms_of_uniform_numbers_are_finite_and_not_0(dtype: str) -> None:
    logarithms = mx.nd.log(mx.nd.random.uniform(shape=(100_000,), dtype=dtype).astype("float64"))
    assert np.isfinite(logarithms.asnumpy()).all()
    assert (logarithms.asnumpy() < 0).all()


@pytest.mark.parametrize("dtype", MODELS)
def test_normal_numbers(dtype: str) -> None:
    uniform, half, limit = MODELS[dtype]
    want = 5 + 2 * box_muller(uniform(3 * BLOCK), half)
    got = mx.nd.random.normal(5, 2, shape=(1300,), dtype=dtype).asnumpy()
    np.testing.assert_allclose(got, want[:1300], rtol=100 * limit, atol=100 * limit)


def test_exponential_numbers() -> None:
    want = [-math.log(1 - next(doubles(i))) / 4 for i in range(600)]
    got = mx.nd.random.exponential(1 / 4, shape=(600,), dtype="float64").asnumpy()
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_poisson_numbers_count_steps() -> None:
    def steps(element: int) -> int:
        source, count = doubles(element), 0
        product = 1 - next(source)
        while product > math.exp(-3.5):
            product *= 1 - next(source)
            count += 1
        return count

    got = mx.nd.random.poisson(3.5, shape=(600,), dtype="float64").asnumpy()
    assert got.tolist() == [steps(i) for i in range(600)]


def test_sampled_rows_draw_one_element_each() -> None:
    low, high = mx.nd.array([0, -2], dtype="float64"), mx.nd.array([1, 4], dtype="float64")
    got = mx.nd.sample_uniform(low, high, shape=300, dtype="float64").asnumpy()
    unit = np.array([next(doubles(i)) for i in range(600)]).reshape(2, 300)
    np.testing.assert_allclose(got, unit * [[1], [6]] + [[0], [-2]], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_calls_do_not_share_numbers(dtype: str) -> None:
    calls = [mx.nd.random.uniform(shape=(700,), dtype=dtype).asnumpy() for _ in range(3)]
    assert len(np.unique(np.concatenate(calls))) > 2095


IMAGES = np.random.RandomState(3).uniform(0, 200, (3, 4, 5, 3)).astype("float32")
CHANGES = ("brightness", "contrast", "saturation", "hue")


def image_words(image: int, draw: int) -> list[int]:
    """Return the words of a draw of an image of a batch; images are 8 counters apart."""
    return philox(image * 8 + draw)


def unit(word: int) -> float:
    return (word >> 8) * 2.0**-24


def changed(image: mx.nd.NDArray, change: str, factor: float) -> mx.nd.NDArray:
    return getattr(mx.nd.image, f"random_{change}")(image, min_factor=factor, max_factor=factor)


@pytest.mark.parametrize("change", CHANGES)
def test_a_random_change_draws_a_factor_per_image(change: str) -> None:
    got = getattr(mx.nd.image, f"random_{change}")(
        mx.nd.array(IMAGES), min_factor=0.5, max_factor=1.75
    ).asnumpy()
    for i, image in enumerate(IMAGES):
        want = changed(mx.nd.array(image), change, 0.5 + 1.25 * unit(image_words(i, 0)[0]))
        np.testing.assert_allclose(got[i], want.asnumpy(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("limits", [(0.3, 0.4, 0.5, 0.2), (0.3, 0, 0.5, 0), (0, 0.4, 0, 0.2)])
def test_jitter_draws_an_order_and_a_factor_for_each_limit(limits: tuple[float, ...]) -> None:
    got = mx.nd.image.random_color_jitter(
        mx.nd.array(IMAGES), **dict(zip(CHANGES, limits))
    ).asnumpy()
    for i, image in enumerate(IMAGES):
        words, order = image_words(i, 0), [0, 1, 2, 3]
        for k in (3, 2, 1):
            j = words[k] % (k + 1)
            order[k], order[j] = order[j], order[k]
        want, draw = mx.nd.array(image), 0
        for which in order:
            if limits[which] > 0:
                draw += 1
                low = (0 if CHANGES[which] == "hue" else 1) - limits[which]
                factor = low + 2 * limits[which] * unit(image_words(i, draw)[0])
                if CHANGES[which] == "hue":
                    factor %= 1  # whole turns of the hue change nothing
                want = changed(want, CHANGES[which], factor)
        np.testing.assert_allclose(got[i], want.asnumpy(), rtol=1e-5, atol=1e-3)


def test_random_lighting_draws_three_normal_numbers_per_image() -> None:
    got = mx.nd.image.random_lighting(mx.nd.array(IMAGES), alpha_std=0.3).asnumpy()
    for i, image in enumerate(IMAGES):
        uniform = np.array([unit(w) for w in image_words(i, 0)])
        alpha = 0.3 * box_muller(uniform, 1)[:3]
        want = mx.nd.image.adjust_lighting(mx.nd.array(image), alpha=tuple(alpha))
        np.testing.assert_allclose(got[i], want.asnumpy(), rtol=1e-5, atol=1e-3)


BAD_PROBABILITIES = {
    "negative": (
        [[0.5, 0.5], [1.5, -0.5]],
        r"the probability of class 1 in row 1 must be at least 0, got -0\.5",
    ),
    "nan": ([np.nan, 1], r"the probability of class 0 in row 0 must be at least 0, got nan"),
    "zeros": ([[0.5, 0.5], [0, 0]], r"the sum of the probabilities in row 1 must be .*, got 0"),
    "infinite": ([np.inf, 1], r"the sum of the probabilities in row 0 must be .*, got inf"),
}


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("case", list(BAD_PROBABILITIES))
def test_rows_that_are_no_distribution_are_refused(case, hybridized):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, data):
            return F.random.multinomial(data, shape=4, get_prob=True)

    values, words = BAD_PROBABILITIES[case]
    net = Net()
    net.hybridize(hybridized)
    with pytest.raises(mx.MXNetError, match=f"sample_multinomial: {words}"):
        net(mx.nd.array(values))[0].asnumpy()
    assert net(mx.nd.array([[0, 2, 0]]))[0].asnumpy().tolist() == [[1, 1, 1, 1]]


def test_seeding_a_device_gives_the_stream_of_device_0() -> None:
    def drawn(device: mx.Context) -> list[float]:
        return mx.nd.random.uniform(shape=(4,), ctx=device).asnumpy().tolist()

    mx.random.seed(3)
    want, other = drawn(mx.cpu(0)), drawn(mx.cpu(1))
    assert want != other
    for device in (mx.cpu(0), mx.cpu(1)):
        mx.random.seed(5)
        mx.random.seed(3, ctx=device)
        assert drawn(device) == want
    assert drawn(mx.cpu(0)) != want
