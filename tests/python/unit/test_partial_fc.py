"""PartialFC in one process: the full layer, the sampler, and mistakes."""

from __future__ import annotations

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from mxlite.gluon.contrib import parallel
from processes import run_program

CLASSES, UNITS, BATCH = 41, 16, 8
MARGINS = [(1, 0, 0), (1, 0.5, 0), (1, 0, 0.35), (1, 0.3, 0.2), (1.35, 0, 0)]


def plain_losses(x, weight, label, margins, scale):
    """Return the losses of the full layer from operators of MXNet 1.x."""
    cosines = nd.dot(nd.L2Normalization(x), nd.L2Normalization(weight), transpose_b=True)
    target = nd.pick(cosines, label)
    moved = nd.cos(nd.arccos(target) * margins[0] + margins[1]) - margins[2]
    change = nd.broadcast_mul(nd.one_hot(label, CLASSES), (moved - target).expand_dims(1))
    return -nd.pick(nd.log_softmax(scale * (cosines + change)), label)


@pytest.mark.parametrize("margins", MARGINS)
def test_ratio_1_is_the_full_layer(margins):
    random = np.random.RandomState(0)
    head = parallel.PartialFC(CLASSES, UNITS, margins=margins, scale=16, wd=0.01)
    weight, momentum = head.weight.copy(), nd.zeros_like(head.momentum)
    weight.attach_grad()
    for _ in range(3):
        label = nd.array(random.randint(0, CLASSES, BATCH))
        inputs = [nd.array(random.randn(BATCH, UNITS)) for _ in range(2)]
        inputs[1][:] = inputs[0]
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            losses = head(inputs[0], label), plain_losses(inputs[1], weight, label, margins, 16)
        autograd.backward(list(losses))
        head.step(BATCH)
        nd.sgd_mom_update(
            weight, weight.grad, momentum, lr=0.1, momentum=0.9, wd=0.01, rescale_grad=1 / BATCH,
            out=weight,
        )  # fmt: skip
        np.testing.assert_allclose(losses[0].asnumpy(), losses[1].asnumpy(), rtol=1e-5)
        np.testing.assert_allclose(*(x.grad.asnumpy() for x in inputs), rtol=1e-4, atol=1e-5)
        for mine, theirs in ((head.weight, weight), (head.momentum, momentum)):
            np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("margins", MARGINS)
def test_gradients_of_embeddings_are_finite_differences(margins):
    random = np.random.RandomState(1)
    head = parallel.PartialFC(CLASSES, UNITS, margins=margins, scale=4, sample_ratio=0.5)
    label = nd.array(random.randint(0, CLASSES, BATCH))
    x = nd.array(random.randn(BATCH, UNITS))
    x.attach_grad()
    with autograd.record():
        losses = head(x, label)
    losses.backward()
    direction = random.randn(BATCH, UNITS).astype("float32")
    step = 1e-2
    up, down = (
        head(x + sign * step * nd.array(direction), label).asnumpy().astype("float64").sum()
        for sign in (1, -1)
    )
    slope = float((x.grad.asnumpy() * direction).sum())
    assert (up - down) / (2 * step) == pytest.approx(slope, rel=5e-3, abs=5e-3)


def sample(label, step=0, **options):
    given = {"classes": 1000, "first": 0, "size": 1000, "count": 100, "seed": 7, **options}
    step = nd.array([step], dtype="int64")
    return [a.asnumpy() for a in nd.contrib.sample_classes(nd.array(label), step, **given)]


def test_the_sample_has_the_labels_and_repeats_itself():
    label = [5, 999, 5, 300, 0]
    rows, position = sample(label)
    assert len(rows) == 100 and (np.diff(rows) > 0).all()
    assert rows[position].tolist() == label
    for again in (sample(label), sample(label)):
        assert (again[0] == rows).all()
    for other in ({"step": 1}, {"seed": 8}):
        assert len(np.intersect1d(sample(label, **other)[0], rows)) < 40
    part, position = sample(label, first=250, size=600, count=60)
    assert part.max() < 600 and position.tolist() == [-1, -1, -1, position[3], -1]
    assert part[position[3]] == 50
    assert len(sample(label, count=1)[0]) == 5  # the labels are never left out
    assert sample(label, count=1000)[0].tolist() == list(range(1000))


@pytest.mark.parametrize("size", [5, 100, 257])
def test_the_sample_is_uniform(size):
    """Counts of rows, and of pairs of neighbours, have the expected variance."""
    count, draws = max(2, size // 5), 3000
    hits = np.zeros((draws, size))
    for step in range(draws):
        rows, _ = sample([size // 2], step, classes=size + 50, first=50, size=size, count=count)
        hits[step, rows] = 1
    hits = hits[:, np.arange(size) != size // 2 - 50] if size // 2 >= 50 else hits
    share = hits.mean()
    chi_square = np.square(hits.sum(axis=0) - draws * share).sum() / (draws * share * (1 - share))
    freedom = hits.shape[1] - 1
    assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom)
    pairs = (hits[:, 1:] * hits[:, :-1]).sum(axis=0)
    together = draws * share * (count - 1) / (size - 1)
    assert abs(pairs.mean() - together) < 6 * np.sqrt(together / len(pairs)) + 0.02 * together


def test_a_class_takes_its_centre_and_momentum_only():
    """A class takes at most 4,096 bytes and 5 percent with 512 units and a tenth of the classes."""
    program = """
        from mxlite import autograd, nd, runtime
        from mxlite.gluon.contrib import parallel
        head = parallel.PartialFC(60000, 512, sample_ratio=0.1)
        for _ in range(2):
            x = nd.random.normal(shape=(64, 512))
            x.attach_grad()
            with autograd.record():
                losses = head(x, nd.arange(64))
            losses.backward()
            head.step(64)
        nd.waitall()
        print(runtime.memory_stats()["peak"] / 60000)
    """
    assert 4096 < float(run_program(program).stdout) < 4096 * 1.05


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: parallel.PartialFC(0, 4), "num_classes must be 1 or more, got 0"),
        (lambda: parallel.PartialFC(4, 4, sample_ratio=0), "sample_ratio must be above 0 and at"),
        (lambda: parallel.PartialFC(4, 4, sample_ratio=1.1), "at most 1, got 1.1"),
        (lambda: parallel.PartialFC(4, 4, sample_ratio=float("nan")), "got nan"),
        (lambda: parallel.PartialFC(4, 4, margins=(1, 0)), r"three numbers, got \(1, 0\)"),
        (lambda: parallel.PartialFC(4, 4, scale=0), "scale must be above 0, got 0"),
        (lambda: parallel.PartialFC(4, 4)(nd.ones((2, 3)), nd.ones(2)), r"\(batch, 4\), got"),
        (
            lambda: parallel.PartialFC(4, 4)(nd.ones((2, 4)), nd.ones(3)),
            r"shape \(2,\), got \(3,\)",
        ),
        (lambda: parallel.PartialFC(4, 4).step(2), "backward must be called before each step"),
        (
            lambda: parallel.PartialFC(4, 4)(nd.ones((1, 4)), nd.array([4])).asnumpy(),
            "0 to 3, got 4",
        ),
        (lambda: parallel.PartialFC(4, 4)(nd.ones((1, 4)), nd.array([-1])).asnumpy(), "got -1"),
    ],
)
def test_mistakes_are_named(make, problem):
    with pytest.raises(mx.MXNetError, match=problem):
        make()


def test_damaged_shards_are_refused(tmp_path):
    head = parallel.PartialFC(CLASSES, UNITS)
    with pytest.raises(mx.MXNetError, match="No such file"):
        head.load(tmp_path / "none")
    with pytest.raises(mx.MXNetError, match="got none"):
        head.load(tmp_path)
    head.save(tmp_path)
    (file,) = tmp_path.iterdir()
    for other in (parallel.PartialFC(CLASSES, UNITS + 1), parallel.PartialFC(CLASSES + 1, UNITS)):
        with pytest.raises(mx.MXNetError, match="must have centres of"):
            other.load(tmp_path)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(mx.MXNetError, match="rank 0 has failed"):
        head.load(tmp_path)
