"""Evaluating and loading data do not change the random numbers of a training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import hybridized, ready, sequential
from mxlite import autograd, nd
from mxlite.gluon import data, nn, rnn
from recording import recorded, variable


def step(net: Any) -> np.ndarray:
    """Return the output of a training step, which depends on the elements that Dropout drops."""
    x = variable(nd.ones((3, 4, 8)))
    out = recorded(net, x)
    return out.asnumpy()


def draws() -> np.ndarray:
    return nd.random.uniform(shape=(3,)).asnumpy()


LAYERS = {
    "Dropout": lambda: sequential(nn.Dropout(0.5), nn.Dense(8, flatten=False)),
    "rrelu": lambda: nn.HybridLambda(lambda F, x: F.LeakyReLU(-x, act_type="rrelu")),
    "attention": lambda: nn.HybridLambda(
        lambda F, x: F.contrib.dot_product_attention(*[F.expand_dims(x, axis=1)] * 3, dropout=0.5)
    ),
    **{
        kind: lambda kind=kind: getattr(rnn, kind)(8, num_layers=2, dropout=0.5)
        for kind in ("LSTM", "GRU", "RNN")
    },
}


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_inference_draws_nothing(kind: str, hybridize: bool) -> None:
    net = ready(LAYERS[kind](), hybridize=hybridize)
    net(nd.ones((3, 4, 8)))  # parameters are drawn

    def train(evaluate: bool) -> list[np.ndarray]:
        mx.random.seed(3)
        results = []
        for _ in range(2):
            results.append(step(net))
            if evaluate:
                with autograd.predict_mode():
                    net(nd.ones((3, 4, 8)))
        return [*results, draws()]

    first, second, last = train(evaluate=False)
    assert (first != second).any()
    for got, want in zip(train(evaluate=True), (first, second, last)):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("hybridize", [False, True])
def test_dropout_of_nothing_draws_nothing(hybridize: bool) -> None:
    net = hybridized(nn.Dropout(0), hybridize)
    mx.random.seed(3)
    want = draws()
    mx.random.seed(3)
    step(net)
    np.testing.assert_array_equal(draws(), want)


@pytest.mark.parametrize("hybridize", [False, True])
def test_dropout_that_always_drops_draws_in_inference(hybridize: bool) -> None:
    net = hybridized(nn.HybridLambda(lambda F, x: F.Dropout(x, p=0.5, mode="always")), hybridize)
    first, second = (net(nd.ones((3, 40))).asnumpy() for _ in "12")
    assert (first != second).any()


def test_an_executor_draws_nothing_in_inference() -> None:
    symbol = mx.sym.Dropout(mx.sym.var("x"), p=0.5)
    executor = symbol.simple_bind(mx.cpu(), x=(100,))

    def train(evaluate: bool) -> list[np.ndarray]:
        mx.random.seed(3)
        results = []
        for _ in range(2):
            results.append(executor.forward(is_train=True, x=nd.ones((100,)))[0].asnumpy())
            executor.backward()
            if evaluate:
                executor.forward(is_train=False)
        return results

    for got, want in zip(train(evaluate=True), train(evaluate=False)):
        np.testing.assert_array_equal(got, want)


LOADERS = {"caller": {}, "threads": {"num_workers": 2, "thread_pool": True}}
LOADERS["processes"] = {"num_workers": 2}


def noisy(index: int) -> Any:
    return nd.random.normal(shape=(5,)) + index


def load(kind: str, passes: int = 2) -> tuple[list[Any], list[Any]]:
    """Return the batches, and what the program draws beside them."""
    mx.random.seed(7)
    np.random.seed(7)
    samples = data.SimpleDataset(list(range(10))).transform(noisy)
    loader = data.DataLoader(samples, 4, shuffle=True, **LOADERS[kind])
    batches, drawn = [], []
    for _ in range(passes):
        for batch in loader:
            batches.append(batch.asnumpy())
            drawn.append(draws())
    return batches, drawn


@pytest.fixture(scope="module", name="without_loading")
def _without_loading() -> list[Any]:
    mx.random.seed(7)
    return [draws() for _ in range(6)]


@pytest.mark.parametrize("kind", LOADERS)
def test_loading_has_random_numbers_of_its_own(kind: str, without_loading: list[Any]) -> None:
    batches, drawn = load(kind)
    np.testing.assert_array_equal(drawn, without_loading)
    for got, want in zip(batches, load("caller")[0]):
        np.testing.assert_array_equal(got, want)
    noise = np.concatenate([batch - np.round(batch[:, :1]) for batch in batches])
    assert len(np.unique(noise)) > 0.99 * noise.size  # no two samples and passes are alike


def test_samples_follow_the_seed_of_the_cpu() -> None:
    def first(seed: int) -> np.ndarray:
        mx.random.seed(seed, ctx=mx.cpu(0))
        return next(iter(data.DataLoader(data.SimpleDataset([0, 0]).transform(noisy), 2))).asnumpy()

    np.testing.assert_array_equal(first(1), first(1))
    assert (first(1) != first(2)).any()


def test_a_data_set_may_seed_its_own_draws() -> None:
    def seeded(index: int) -> Any:
        mx.random.seed(index)
        return noisy(index)

    mx.random.seed(7)
    want = draws()
    mx.random.seed(7)
    loader = data.DataLoader(data.SimpleDataset([3, 3]).transform(seeded), 1)
    first, second = (batch.asnumpy() for batch in loader)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(draws(), want)


def test_an_error_while_loading_leaves_the_program_its_generator() -> None:
    def fail(index: int) -> Any:
        noisy(index)
        raise KeyError(index)

    mx.random.seed(7)
    want = draws()
    mx.random.seed(7)
    with pytest.raises(KeyError):
        next(iter(data.DataLoader(data.SimpleDataset([3]).transform(fail), 1)))
    np.testing.assert_array_equal(draws(), want)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    states = mx.random.random_state()
    yield
    mx.random.set_random_state(states)
