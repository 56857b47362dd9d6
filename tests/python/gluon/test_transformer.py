"""Attention, cells, positions, BERT and GPT models against NumPy."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
import transformer_reference as reference
from blocks import hybridized, ready
from mxlite import nd
from mxlite.base import ShapeError
from mxlite.gluon.contrib.nn import transformer
from recording import recorded

TOLERANCE = {"rtol": 2e-4, "atol": 2e-5}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed + sum(shape)).normal(size=shape).astype("float32")


def made(block: Any, seed: int = 3, scale: float = 0.4) -> Any:
    """Initialize with values that are large enough for every part to matter."""
    mx.random.seed(seed)
    block.initialize(mx.init.Normal(scale))
    for parameter in block.collect_params().values():
        if parameter.shape is not None and len(parameter.shape) == 1:
            parameter.set_data(nd.array(normal(*parameter.shape) * 0.2 + 0.7))
    return block


QUERY, KEY, VALUE = normal(2, 3, 4, 6), normal(2, 3, 5, 6, seed=1), normal(2, 3, 5, 6, seed=2)
LENGTHS = np.array([3, 0], "int32")
BY_LENGTH = np.arange(5) < LENGTHS[:, None, None, None]
CAUSAL = np.tril(np.ones((4, 5)), 1)  # one more key than queries
MASK = (np.random.RandomState(5).rand(2, 1, 4, 5) < 0.6).astype("float32")


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, np.ones((4, 5))),
        ({"scale": 0.7}, np.ones((4, 5))),
        ({"lengths": LENGTHS}, BY_LENGTH),
        ({"causal": True}, CAUSAL),
        ({"mask": MASK}, MASK),
        ({"mask": MASK, "lengths": LENGTHS, "causal": True}, MASK * BY_LENGTH * CAUSAL),
    ],
)
def test_attention(options: Any, allowed: np.ndarray, hybrid: bool) -> None:
    class Attention(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, query: Any, key: Any, value: Any, *rest: Any) -> Any:  # noqa: N803
            given = {**options, **dict(zip((k for k in ("mask", "lengths") if k in options), rest))}
            return transformer.dot_product_attention(F, query, key, value, **given)

    arrays = [QUERY, KEY, VALUE, *(options[k] for k in ("mask", "lengths") if k in options)]
    output = hybridized(Attention(), hybrid)(*(nd.array(a, dtype=a.dtype) for a in arrays))
    expected = reference.attention(QUERY, KEY, VALUE, allowed, options.get("scale"))
    np.testing.assert_allclose(output.asnumpy(), expected, **TOLERANCE)


@pytest.mark.parametrize(
    ("layer", "function"),
    [("gelu", reference.gelu), ("gelu_tanh", reference.tanh_gelu)],
)
def test_both_forms_of_gelu(layer: str, function: Any) -> None:
    from mxlite.gluon.contrib.nn.transformer.cells import activation_layer

    x = np.linspace(-5, 5, 41).astype("float32")
    found = activation_layer(layer)(nd.array(x)).asnumpy()
    np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-6)
    other = reference.tanh_gelu if layer == "gelu" else reference.gelu
    assert np.abs(found - other(x)).max() > 2e-4  # the forms differ
    with pytest.raises(mx.MXNetError, match="activation must be one of gelu.*, got 'swish'"):
        activation_layer("swish")


def test_rotation_depends_on_distances_only() -> None:
    x, base = normal(1, 1, 5, 8), 100.0
    found = transformer.rotate(nd, nd.array(x), nd.arange(3, 8), 8, base).asnumpy()[0, 0]
    for row in range(5):
        pairs = x[0, 0, row, :4] + 1j * x[0, 0, row, 4:]
        turned = pairs * np.exp(1j * (3 + row) / base ** (2 * np.arange(4) / 8))
        expected = np.concatenate([turned.real, turned.imag])
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-5)
    half = transformer.rotate(nd, nd.array(x, dtype="bfloat16"), nd.arange(5), 8, base)
    assert np.dtype(half.dtype).name == "bfloat16"


def cell_reference(cell: Any, x: np.ndarray, allowed: np.ndarray, heads: int) -> np.ndarray:
    arrays = {k: p.data().asnumpy() for k, p in cell._collect_params_with_prefix().items()}

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        return reference.layer_norm(x, arrays[f"{name}.gamma"], arrays[f"{name}.beta"], cell.eps)

    def residual(name: str, x: np.ndarray, part: Any) -> np.ndarray:
        return x + part(norm(name, x)) if cell.pre else norm(name, x + part(x))

    def attend(x: np.ndarray) -> np.ndarray:
        qkv = np.split(reference.linear(arrays, "attention.qkv", x), 3, axis=2)
        parts = [reference.heads_of(part, heads) for part in qkv]
        mixed = reference.joined(reference.attention(*parts, allowed))
        return reference.linear(arrays, "attention.proj", mixed)

    def cross(x: np.ndarray) -> np.ndarray:
        query = reference.heads_of(reference.linear(arrays, "cross_attention.query", x), heads)
        both = np.split(reference.linear(arrays, "cross_attention.key_value", cell.memory), 2, 2)
        key, value = (reference.heads_of(part, heads) for part in both)
        mixed = reference.attention(query, key, value, cell.memory_allowed)
        return reference.linear(arrays, "cross_attention.proj", reference.joined(mixed))

    def network(x: np.ndarray) -> np.ndarray:
        inner = cell.function(reference.linear(arrays, "ffn.expand", x))
        return reference.linear(arrays, "ffn.contract", inner)

    x = residual("attention_norm", x.astype("float64"), attend)
    if hasattr(cell, "cross_attention"):
        x = residual("cross_norm", x, cross)
    return residual("ffn_norm", x, network)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("hybrid", [False, True])
def test_encoder_cell(pre_norm: bool, hybrid: bool) -> None:
    cell = made(transformer.TransformerEncoderCell(12, 20, 3, pre_norm=pre_norm))
    cell.eps, cell.pre, cell.function = 1e-12, pre_norm, reference.gelu
    cell.hybridize(hybrid)
    x, lengths = normal(2, 5, 12), np.array([5, 2], "int32")
    found = cell(nd.array(x), nd.array(lengths, dtype="int32")).asnumpy()
    allowed = np.arange(5) < lengths[:, None, None, None]
    np.testing.assert_allclose(found, cell_reference(cell, x, allowed, 3), **TOLERANCE)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_decoder_cell_attends_to_the_past_and_to_the_memory(pre_norm: bool) -> None:
    cell = made(transformer.TransformerDecoderCell(12, 20, 3, pre_norm=pre_norm))
    cell.eps, cell.pre, cell.function = 1e-5, pre_norm, lambda x: np.maximum(x, 0)
    cell.hybridize()
    x, cell.memory = normal(2, 5, 12), normal(2, 7, 12)
    lengths = np.array([7, 4], "int32")
    cell.memory_allowed = np.arange(7) < lengths[:, None, None, None]
    memory, counts = nd.array(cell.memory), nd.array(lengths, dtype="int32")
    found = cell(nd.array(x), memory, None, counts).asnumpy()
    expected = cell_reference(cell, x, np.tril(np.ones((5, 5))), 3)
    np.testing.assert_allclose(found, expected, **TOLERANCE)
    cache, rows = [nd.zeros((2, 3, 6, 4)) for _ in range(2)], []
    for begin, end in ((0, 2), (2, 3), (3, 5)):
        part = nd.array(x[:, begin:end])
        row, *cache = cell(part, memory, None, counts, nd.arange(begin, end), cache)
        rows.append(row.asnumpy())
    np.testing.assert_allclose(np.concatenate(rows, axis=1), expected, **TOLERANCE)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_padding_of_bert_has_no_influence(pre_norm: bool) -> None:
    net = made(transformer.BERTModel(50, 12, 20, 2, 3, 9, dropout=0.3, pre_norm=pre_norm))
    net.hybridize()
    tokens = np.random.RandomState(0).randint(0, 50, (2, 8))
    lengths = nd.array([8, 5], dtype="int32")
    outputs = [a.asnumpy() for a in net(nd.array(tokens), None, lengths)]
    tokens[1, 5:] = 7
    changed = [a.asnumpy() for a in net(nd.array(tokens), None, lengths)]
    np.testing.assert_array_equal(outputs[0][1, :5], changed[0][1, :5])
    np.testing.assert_array_equal(outputs[1], changed[1])
    assert (outputs[0][1, 5:] != changed[0][1, 5:]).any()
    shorter = [a.asnumpy() for a in net(nd.array(tokens[1:, :5]))]
    np.testing.assert_allclose(shorter[0][0], outputs[0][1, :5], **TOLERANCE)


def test_bert_with_all_arrays_of_base_size() -> None:
    """Count the parameters of BERT-base without making them."""
    net = transformer.BERTForPretraining(transformer.BERTModel())
    counts = [int(np.prod(p.shape)) for p in net.collect_params().values()]
    assert sum(counts) == 110_106_428


def test_masked_scores_have_the_gradient_of_the_embedding_twice() -> None:
    """The tied weight gets gradients as an embedding and as a decoder."""
    net = made(transformer.BERTForPretraining(transformer.BERTModel(30, 8, 16, 1, 2, 6, dropout=0)))
    inputs = [nd.array(a, dtype="int32") for a in ([[1, 2, 3, 4]], [[0, 0, 1, 1]], [4], [[1, 3]])]
    recorded(lambda: net(*inputs)[0].sum())
    gradient = net.backbone.word_embed.weight.grad().asnumpy()
    # All rows get the decoder's part; those of the tokens get more.
    others = gradient[5:]
    np.testing.assert_allclose(others, np.broadcast_to(others[0], others.shape), rtol=1e-4)
    assert np.abs(gradient[1:5] - others[0]).max() > 1e-3


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("hybrid", [False, True])
def test_decoding_with_a_cache_gives_the_scores_of_the_whole(positions: str, hybrid: bool) -> None:
    net = made(transformer.GPTModel(40, 12, None, 2, 3, 10, positions=positions))
    tokens = nd.array(np.random.RandomState(1).randint(0, 40, (2, 9)))
    whole = net(tokens).asnumpy()
    net.hybridize(hybrid)
    cache = net.make_cache(2)
    parts = [(0, 3), (3, 4), (4, 5), (5, 8), (8, 9)]
    found = [net.decode(tokens[:, begin:end], cache).asnumpy() for begin, end in parts]
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, **TOLERANCE)
    assert cache.length == 9
    with pytest.raises(mx.MXNetError, match="at most 10 tokens, got 2 after 9"):
        net.decode(tokens[:, :2], cache)
    with pytest.raises(mx.MXNetError, match=r"shape \(2, length\) .*, got \(1, 2\)"):
        net.decode(tokens[:1, :2], cache)
    assert cache.length == 9


def test_rotary_scores_do_not_see_the_first_position() -> None:
    net = made(transformer.GPTModel(40, 12, None, 2, 3, 30, positions="rotary"))
    tokens = nd.array([[3, 1, 4, 1, 5]])
    shifted = net(tokens, nd.arange(11, 16)).asnumpy()
    np.testing.assert_allclose(net(tokens).asnumpy(), shifted, rtol=1e-3, atol=1e-4)


def test_models_pass_as_symbols() -> None:
    net = made(transformer.BERTModel(50, 12, 20, 1, 3, 9))
    tokens, lengths = nd.array([[1, 2, 3, 4]]), nd.array([3], dtype="int32")
    expected = net(tokens, nd.zeros_like(tokens), lengths)
    symbols = [mx.sym.var(name) for name in ("tokens", "types", "lengths")]
    outputs = mx.sym.Group(list(net(*symbols)))
    values = {p.name: p.data() for p in net.collect_params().values()}
    inputs = {"tokens": tokens, "types": nd.zeros_like(tokens), "lengths": lengths}
    found = outputs.bind(mx.cpu(), {**values, **inputs}).forward()
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), **TOLERANCE)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types(dtype: str) -> None:
    net = made(transformer.BERTModel(50, 16, 32, 1, 2, 9), scale=0.1)
    tokens = nd.array([[1, 2, 3, 4]])
    expected = net(tokens)[0].asnumpy()
    net.cast(dtype)
    found = net(tokens)[0]
    assert np.dtype(found.dtype).name == dtype
    step = {"float16": 2.0**-9, "bfloat16": 2.0**-6}[dtype]
    np.testing.assert_allclose(found.astype("float32").asnumpy(), expected, atol=6 * step)


def bert(*shapes: Any, pretraining: bool = False) -> Any:
    """Run a small model on zeros of the shapes."""
    net = transformer.BERTModel(9, 8, 8, 1, 2, 4)
    net = made(transformer.BERTForPretraining(net) if pretraining else net)
    return net(*(None if shape is None else nd.zeros(shape) for shape in shapes))


def attend(shape: tuple[int, ...], *rest: Any) -> Any:
    return made(transformer.MultiHeadSelfAttention(8, 2))(nd.zeros(shape), *rest)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: transformer.MultiHeadSelfAttention(10, 3),
            "multiple of num_heads, got units 10 and num_heads 3",
        ),
        (
            lambda: transformer.MultiHeadSelfAttention(6, 2, rotary_base=10.0),
            "number of features of a head must be .*got 3",
        ),
        (lambda: bert((1, 5)), "max_length = 4, got 5"),
        (lambda: bert((5,)), r"tokens must have 2 axes, got shape \(5,\)"),
        (lambda: bert((2, 3), (2, 4)), r"token_types must have shape \(2, 3\) .*got \(2, 4\)"),
        (lambda: bert((2, 3), None, (3,)), r"valid_lengths must have shape \(2,\) .*got \(3,\)"),
        (
            lambda: bert((1, 3), None, None, pretraining=True),
            "masked_positions must be .*, got None",
        ),
        (
            lambda: transformer.BERTForPretraining(transformer.BERTModel(9, use_pooler=False)),
            "the model must be BERTModel",
        ),
        (lambda: transformer.GPTModel(positions="sine"), "positions must be .*, got 'sine'"),
        (lambda: transformer.GPTModel(9, 8, None, 1, 2, 4).make_cache(1, 5), "must be 1 to 4"),
        (lambda: made(transformer.GPTModel(9, 8, None, 1, 2, 4))(nd.zeros((1, 5))), "max_length"),
        (lambda: attend((1, 3, 9)), r"shape \(batch, length, 8\), got \(1, 3, 9\)"),
        (
            lambda: attend((1, 3, 8), None, None, None, [nd.zeros((1, 2, 4, 4))] * 2),
            "with a cache, positions must be an array",
        ),
    ],
)
def test_wrong_inputs_say_what_was_expected(call: Any, words: str) -> None:
    with pytest.raises(mx.MXNetError, match=words):
        call()


def test_masked_positions_behind_the_sequence_are_refused() -> None:
    net = made(transformer.BERTForPretraining(transformer.BERTModel(9, 8, 8, 1, 2, 4)))
    with pytest.raises(mx.MXNetError, match="out of range"):
        net(nd.zeros((1, 3)), None, None, nd.array([[3]]))[0].asnumpy()


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_positions_are_exact_in_bfloat16(positions: str) -> None:
    """bfloat16 holds integers up to 256 only."""
    net = made(transformer.GPTModel(40, 8, None, 1, 2, 600, positions=positions))
    net.cast("bfloat16")
    tokens = nd.array(np.random.RandomState(1).randint(0, 40, (1, 600)))
    whole = net(tokens).asnumpy().astype("float32")
    cache = net.make_cache(1, dtype="bfloat16")
    parts = [net.decode(tokens[:, i : i + 100], cache).asnumpy() for i in range(0, 600, 100)]
    found = np.concatenate(parts, axis=1).astype("float32")
    # A step of bfloat16 is 1/128; sums over other parts of the keys are rounded another way.
    np.testing.assert_allclose(found, whole, atol=4 / 128, rtol=2 / 128)


def test_rotation_keeps_float64() -> None:
    layer = made(transformer.MultiHeadSelfAttention(8, 2, rotary_base=1e4))
    layer.cast("float64")
    assert layer(nd.ones((1, 3, 8), dtype="float64")).dtype == np.float64


def test_masked_positions_are_of_as_many_sequences() -> None:
    net = ready(transformer.BERTForPretraining(transformer.BERTModel(9, 8, 8, 1, 2, 6)))
    tokens = nd.zeros((2, 4), dtype="int32")
    for shape in ((1, 1), (3, 1), (2,)):
        positions = nd.zeros(shape, dtype="int32")
        with pytest.raises(ShapeError, match=r"masked_positions must have shape \(2, masks\)"):
            net(tokens, tokens, nd.array([4, 4]), positions)
