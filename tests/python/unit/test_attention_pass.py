"""The pass fuse-attention on gluon-nlp's cells: values, gradients, dropout, memory."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, nd
from mxlite.gluon import HybridBlock, nn
from pairing import assert_all_equal
from processes import run_program
from recording import differentiated, variable

BATCH, HEADS, LENGTH, SIZE = 3, 4, 37, 8
UNITS = HEADS * SIZE


class Interleaved(HybridBlock):
    """The computation of gluon-nlp's DotProductSelfAttentionCell on one projection."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F: Any, qkv: Any, length: Any = None) -> Any:
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=HEADS)
        if length is None:
            weights = F.softmax(scores, axis=-1)
        else:
            zeros = F.zeros_like(F.contrib.arange_like(qkv, axis=0))
            rows = F.broadcast_add(length.reshape((-1, 1)), zeros.reshape((1, -1)))
            rows = F.cast(rows, dtype="int32")
            rows = F.broadcast_axis(F.expand_dims(rows, axis=1), axis=1, size=HEADS)
            rows = rows.reshape(shape=(-1, 0), reverse=True)
            weights = F.softmax(scores, length=rows, use_length=True, axis=-1)
        return F.contrib.interleaved_matmul_selfatt_valatt(qkv, self.dropout(weights), heads=HEADS)


def encoder_decoder(F: Any, queries: Any, keys_values: Any) -> Any:  # noqa: N803
    """Return the products of a decoder's queries with an encoder's keys and values."""
    scores = F.contrib.interleaved_matmul_encdec_qk(queries, keys_values, heads=HEADS)
    weights = F.softmax(scores, axis=-1)
    return F.contrib.interleaved_matmul_encdec_valatt(keys_values, weights, heads=HEADS)


class MultiHead(HybridBlock):
    """The computation of gluon-nlp's MultiHeadAttentionCell with a DotProductAttentionCell."""

    def __init__(self, dropout: float = 0.0, masked: bool = True, scaled: bool = True) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.masked, self.scaled = masked, scaled

    def by_heads(self, F: Any, x: Any) -> Any:
        x = F.transpose(x.reshape(shape=(0, 0, HEADS, -1)), axes=(0, 2, 1, 3))
        return x.reshape(shape=(-1, 0, 0), reverse=True)

    def hybrid_forward(self, F: Any, query: Any, memory: Any, length: Any) -> Any:
        steps = F.contrib.arange_like(memory, axis=1)
        mask = F.broadcast_lesser(steps.reshape((1, -1)), length.reshape((-1, 1)))
        ones = F.ones_like(F.contrib.arange_like(query, axis=1))
        mask = F.broadcast_mul(F.expand_dims(mask, axis=1), ones.reshape((-1, 1)))
        q, k, v = (self.by_heads(F, x) for x in (query, memory, memory * 0.5))
        if self.scaled:
            q = F.contrib.div_sqrt_dim(q)
        scores = F.batch_dot(q, k, transpose_b=True)
        if self.masked:
            mask = F.broadcast_axis(F.expand_dims(mask, axis=1), axis=1, size=HEADS)
            mask = mask.reshape(shape=(-1, 0, 0), reverse=True)
            scores = F.where(mask, scores, -1e18 * F.ones_like(scores))
            weights = F.softmax(scores, axis=-1) * mask
        else:
            weights = F.softmax(scores, axis=-1)
        weights = self.dropout(weights).reshape(shape=(-1, HEADS, 0, 0), reverse=True)
        y = F.batch_dot(weights.reshape(shape=(-1, 0, 0), reverse=True), v)
        y = F.transpose(y.reshape(shape=(-1, HEADS, 0, 0), reverse=True), axes=(0, 2, 1, 3))
        return y.reshape(shape=(0, 0, -1))


def _arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    rng = np.random.RandomState(3)
    return [nd.array(rng.uniform(-2, 2, s), dtype=dtype) for s in shapes]


def _eager_and_hybrid(net: HybridBlock, arrays: list[Any], train: bool) -> Any:
    """Return the outputs and gradients of eager and of hybridized calls."""
    results = []
    for hybrid in (False, True):
        net.hybridize(hybrid)
        for a in arrays:
            a.attach_grad()
        with autograd.record(train_mode=train):
            y = net(*arrays)
        y.backward(nd.array(np.random.RandomState(4).uniform(-1, 1, y.shape), dtype=y.dtype))
        results.append([y.asnumpy(), *(a.grad.asnumpy() for a in arrays)])
        results[-1].append(net(*arrays).asnumpy())
    return results


def _inputs(name: str, dtype: str) -> list[Any]:
    """Return arrays for a network of ``NETS``; one sample has no keys."""
    shapes = NETS[name][1]
    arrays = _arrays(*shapes, dtype=dtype)
    if shapes[-1] == (BATCH,):
        arrays[-1] = nd.array([20, 0, LENGTH], dtype=dtype)
    return arrays


def _close(found: list[np.ndarray], want: list[np.ndarray], dtype: str) -> None:
    step = float(np.finfo(dtype).eps)
    for f, w in zip(found, want):
        assert f.shape == w.shape and np.isfinite(f).all()
        np.testing.assert_allclose(f, w, rtol=0, atol=64 * step * max(np.abs(w).max(), 1e-3))


MEMORY = [(BATCH, LENGTH, UNITS), (BATCH, 50, UNITS), (BATCH,)]
NETS = {
    "self": (lambda: Interleaved(), [(LENGTH, BATCH, 3 * UNITS)]),
    "self with lengths": (lambda: Interleaved(), [(LENGTH, BATCH, 3 * UNITS), (BATCH,)]),
    "encoder": (
        lambda: nn.HybridLambda(encoder_decoder),
        [(LENGTH, BATCH, UNITS), (50, BATCH, 2 * UNITS)],
    ),
    "heads": (lambda: MultiHead(masked=False), MEMORY),
    "heads with mask": (lambda: MultiHead(), MEMORY),
    "heads without scale": (lambda: MultiHead(scaled=False), MEMORY),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NETS)
def test_values_and_gradients_are_those_of_the_separate_operators(
    name: str, dtype: str, train: bool
) -> None:
    eager, hybrid = _eager_and_hybrid(NETS[name][0](), _inputs(name, dtype), train)
    _close(hybrid, eager, dtype)


def test_every_network_is_fused(tmp_path: Path) -> None:
    """In inference and in recorded graphs; eager calls are the reference of the other tests."""
    program = """
        import test_attention_pass as t

        for name, (make, _) in t.NETS.items():
            t._eager_and_hybrid(make(), t._inputs(name, "float32"), True)
    """
    run_program(program, seconds=240, MXLITE_DUMP_GRAPH=str(tmp_path))
    before = [p.read_text() for p in tmp_path.glob("*_recorded.txt")]
    before += [p.read_text() for p in tmp_path.glob("*_inference.txt")]
    assert sum("softmax(" in text for text in before) == 2 * len(NETS)
    after = [p.read_text() for p in tmp_path.glob("*_fuse-attention.txt")]
    assert len(after) >= len(before) and not any("softmax(" in text for text in after)


def test_dropout_keeps_the_right_share() -> None:
    """Values of 1 and equal scores: every output is the share that dropout kept, scaled."""
    p, length = 0.25, 400
    qkv = np.zeros((length, 2, HEADS, 3, SIZE), "float32")
    qkv[:, :, :, 2] = 1
    x = variable(nd.array(qkv.reshape(length, 2, -1)))
    net = Interleaved(dropout=p)
    net.hybridize()
    mx.random.seed(5)
    draws = []
    for _ in range(2):
        y = differentiated(lambda: net(x))
        # Every value's gradient is the sum of the weights with which queries took it.
        grad = x.grad.asnumpy().reshape(qkv.shape)[:, :, :, 2, 0]
        rows = y.asnumpy().reshape(length, 2, HEADS, SIZE)
        np.testing.assert_array_equal(rows[..., :1].repeat(SIZE, -1), rows)
        draws.append(rows[..., 0])
        deviation = (p / (1 - p) / length) ** 0.5
        for found in (rows[..., 0], grad):
            assert abs(found.mean() - 1) < 5 * deviation / found.size**0.5
            assert found.std() == pytest.approx(deviation, rel=0.1)
        np.testing.assert_allclose(rows[..., 0].sum(0), grad.sum(0), rtol=1e-4)
    assert np.abs(np.corrcoef(draws[0].ravel(), draws[1].ravel())[0, 1]) < 0.1
    np.testing.assert_allclose(net(x).asnumpy(), np.ones((length, 2, UNITS)), rtol=1e-6)


def test_backward_drops_what_forward_dropped() -> None:
    """Finite differences of calls that draw the same numbers."""
    (qkv,) = _arrays((LENGTH, BATCH, 3 * UNITS), dtype="float64")
    head = nd.array(np.random.RandomState(1).randn(LENGTH, BATCH, UNITS), dtype="float64")
    net = Interleaved(dropout=0.4)
    net.hybridize()

    def loss(x: Any) -> Any:
        mx.random.seed(8)
        with autograd.record():
            y = net(x)
        return y

    qkv.attach_grad()
    loss(qkv).backward(head)
    rng = np.random.RandomState(2)
    direction = nd.array(rng.uniform(-1, 1, qkv.shape), dtype="float64")
    sides = [float((loss(qkv + s * direction) * head).sum().asscalar()) for s in (1e-6, -1e-6)]
    slope = float((qkv.grad * direction).sum().asscalar())
    assert slope == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize(("make", "name"), [(Interleaved, "self"), (MultiHead, "heads with mask")])
def test_a_checkpointed_block_draws_the_same_numbers_again(make: Any, name: str) -> None:
    """Its first forward is not recorded, the one that is run again in backward is."""
    arrays = _inputs(name, "float64")
    results = []
    for checkpointed in (False, True):
        net = make(dropout=0.4)
        net.hybridize()
        if checkpointed:
            net.checkpoint()
        arrays[0].attach_grad()
        mx.random.seed(8)
        with autograd.record():
            y = net(*arrays)
        y.backward(y)
        results.append((y.asnumpy(), arrays[0].grad.asnumpy()))
    assert_all_equal(*results)


@pytest.mark.parametrize("name", NETS)
def test_gradients_of_gradients(name: str) -> None:
    arrays = _inputs(name, "float64")
    results = []
    for hybrid in (False, True):
        net = NETS[name][0]()
        net.hybridize(hybrid)
        for a in arrays:
            a.attach_grad()
        with autograd.record():
            y = net(*arrays)
            grads = autograd.grad([(y * y).sum()], arrays[:1], create_graph=True)
            loss = sum((g * g).sum() for g in grads)
        loss.backward()
        results.append([a.grad.asnumpy() for a in arrays])
    for found, want in zip(results[1], results[0]):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9 * (1 + np.abs(want).max()))


def test_symbols_of_recorded_calls_show_the_operators_of_forward() -> None:
    net = Interleaved()
    net.hybridize()
    (qkv,) = _arrays((LENGTH, BATCH, 3 * UNITS))
    qkv.attach_grad()
    with autograd.record():
        y = net(qkv)
    symbol = autograd.get_symbol(y)
    operators = {entry["op"] for entry in json.loads(symbol.tojson())["nodes"]}
    assert {"softmax", "_contrib_interleaved_matmul_selfatt_qk"} <= operators
    executor = symbol.bind(mx.cpu(), dict.fromkeys(symbol.list_arguments(), qkv))
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), y.asnumpy(), atol=1e-6)


STEPS = """
    import mxlite as mx
    from mxlite import nd
    from processes import peak_mib
    from recording import differentiated, variable
    from test_attention_pass import HEADS, Interleaved

    def step(net, length):
        x = nd.ones((length, 1, HEADS * 3 * 8))
        differentiated(net, x)
        x.grad.wait_to_read()
        return net(x).asnumpy()

    net = Interleaved(dropout=0.1)
    net.hybridize()
    step(net, 64)
    before = peak_mib()
    step(net, 3000)
    print(peak_mib() - before)
"""


def test_the_pass_is_printed_keeps_memory_linear_and_can_be_skipped() -> None:
    """Scores of 4 heads and 3000 positions take 144 MB, several times in a step."""
    line = r"mxlite: \S+: (inference|recorded): fuse-attention: (\d+) -> (\d+) nodes"
    fused, separate = (
        run_program(STEPS, MXLITE_VERBOSE="passes", MXLITE_SKIP_PASSES=skipped)
        for skipped in ("", "fuse-attention")
    )
    found = re.findall(line, fused.stderr)
    assert {name for name, _, _ in found} == {"inference", "recorded"}
    assert all(int(after) < int(before) for _, before, after in found), found
    assert not re.findall(line, separate.stderr)
    assert int(fused.stdout) < 60 and int(separate.stdout) > 288


def test_unknown_names_of_passes_are_refused() -> None:
    done = run_program(STEPS, code=1, MXLITE_SKIP_PASSES="fuse-attentions")
    assert "ValueError: MXLITE_SKIP_PASSES must contain names of passes" in done.stderr
    assert "got 'fuse-attentions'" in done.stderr
