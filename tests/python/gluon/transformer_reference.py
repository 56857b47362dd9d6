"""BERT and GPT-2 in NumPy, straight from the arrays of PyTorch's state dicts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_erf = np.vectorize(math.erf)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps) * gamma + beta


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + _erf(x / math.sqrt(2)))


def tanh_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    allowed: np.ndarray,
    scale: float | None = None,
) -> np.ndarray:
    """Attend one row after another; the arrays are (batch, heads, length, size)."""
    scale = 1 / math.sqrt(query.shape[3]) if scale is None else scale
    allowed = np.broadcast_to(allowed, (*query.shape[:3], key.shape[2]))
    output = np.zeros((*query.shape[:3], value.shape[3]))
    for place in np.ndindex(query.shape[:3]):
        keys = np.flatnonzero(allowed[place])
        if len(keys):
            weights = softmax(key[place[:2]][keys] @ query[place] * scale)
            output[place] = weights @ value[place[:2]][keys]
    return output


def heads_of(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def joined(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def linear(state: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def norm(state: Arrays, name: str, x: np.ndarray, eps: float) -> np.ndarray:
    return layer_norm(x, state[f"{name}.weight"], state[f"{name}.bias"], eps)


def random_arrays(shapes: dict[str, tuple[int, ...]], seed: int) -> Arrays:
    random = np.random.RandomState(seed)
    return {name: random.normal(0, 0.3, shape).astype("float32") for name, shape in shapes.items()}


def bert_state(
    vocabulary: int, units: int, hidden: int, layers: int, positions: int, types: int = 2
) -> Arrays:
    """Return arrays with the names of PyTorch's BertForPreTraining."""
    shapes: dict[str, tuple[int, ...]] = {
        "bert.embeddings.word_embeddings.weight": (vocabulary, units),
        "bert.embeddings.position_embeddings.weight": (positions, units),
        "bert.embeddings.token_type_embeddings.weight": (types, units),
        "cls.predictions.bias": (vocabulary,),
    }

    def add(name: str, *shape: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]

    add("bert.embeddings.LayerNorm", units)
    for number in range(layers):
        layer = f"bert.encoder.layer.{number}"
        for part in ("query", "key", "value"):
            add(f"{layer}.attention.self.{part}", units, units)
        add(f"{layer}.attention.output.dense", units, units)
        add(f"{layer}.attention.output.LayerNorm", units)
        add(f"{layer}.intermediate.dense", hidden, units)
        add(f"{layer}.output.dense", units, hidden)
        add(f"{layer}.output.LayerNorm", units)
    add("bert.pooler.dense", units, units)
    add("cls.predictions.transform.dense", units, units)
    add("cls.predictions.transform.LayerNorm", units)
    add("cls.seq_relationship", 2, units)
    return random_arrays(shapes, 1)


def bert(
    state: Arrays,
    tokens: np.ndarray,
    segments: np.ndarray,
    lengths: np.ndarray,
    heads: int,
    eps: float = 1e-12,
    first_position: int = 0,
    prefix: str = "bert.",
) -> np.ndarray:
    """Return the encoded sequence."""
    state = {name[len(prefix) :]: a for name, a in state.items() if name.startswith(prefix)}
    embeddings = "embeddings.{}_embeddings.weight"
    x = state[embeddings.format("word")][tokens].astype("float64")
    x += state[embeddings.format("token_type")][segments]
    begin = first_position
    x += state[embeddings.format("position")][begin : begin + tokens.shape[1]]
    x = norm(state, "embeddings.LayerNorm", x, eps)
    allowed = np.arange(tokens.shape[1]) < lengths[:, None, None, None]
    number = 0
    while f"encoder.layer.{number}.output.dense.weight" in state:
        name = f"encoder.layer.{number}"
        parts = [
            heads_of(linear(state, f"{name}.attention.self.{part}", x), heads)
            for part in ("query", "key", "value")
        ]
        mixed = linear(state, f"{name}.attention.output.dense", joined(attention(*parts, allowed)))
        x = norm(state, f"{name}.attention.output.LayerNorm", x + mixed, eps)
        inner = gelu(linear(state, f"{name}.intermediate.dense", x))
        output = linear(state, f"{name}.output.dense", inner)
        x = norm(state, f"{name}.output.LayerNorm", x + output, eps)
        number += 1
    return x


def bert_scores(
    state: Arrays, sequence: np.ndarray, positions: np.ndarray, eps: float = 1e-12
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of masked tokens, and of the two classes."""
    rows = np.take_along_axis(sequence, positions[:, :, None], axis=1)
    x = gelu(linear(state, "cls.predictions.transform.dense", rows))
    x = norm(state, "cls.predictions.transform.LayerNorm", x, eps)
    words = state["bert.embeddings.word_embeddings.weight"]
    scores = x @ words.T + state["cls.predictions.bias"]
    pooled = np.tanh(linear(state, "bert.pooler.dense", sequence[:, 0]))
    return scores, linear(state, "cls.seq_relationship", pooled)


def gpt2_state(vocabulary: int, units: int, layers: int, positions: int) -> Arrays:
    """Return arrays with the names of PyTorch's GPT2LMHeadModel, whose layers are transposed."""
    shapes: dict[str, tuple[int, ...]] = {
        "transformer.wte.weight": (vocabulary, units),
        "transformer.wpe.weight": (positions, units),
        "transformer.ln_f.weight": (units,),
        "transformer.ln_f.bias": (units,),
    }
    parts = {"ln_1": (units,), "attn.c_attn": (units, 3 * units), "attn.c_proj": (units, units)}
    parts |= {"ln_2": (units,), "mlp.c_fc": (units, 4 * units), "mlp.c_proj": (4 * units, units)}
    for number in range(layers):
        for name, shape in parts.items():
            shapes[f"transformer.h.{number}.{name}.weight"] = shape
            shapes[f"transformer.h.{number}.{name}.bias"] = shape[-1:]
    return random_arrays(shapes, 2)


def gpt2(state: Arrays, tokens: np.ndarray, heads: int) -> np.ndarray:
    """Return the scores of the token after each one."""
    state = {name[len("transformer.") :]: array for name, array in state.items()}

    def product(name: str, x: np.ndarray) -> np.ndarray:
        return x @ state[f"{name}.weight"] + state[f"{name}.bias"]

    length = tokens.shape[1]
    x = state["wte.weight"][tokens].astype("float64") + state["wpe.weight"][:length]
    allowed: Any = np.tril(np.ones((length, length)))
    number = 0
    while f"h.{number}.ln_1.weight" in state:
        name = f"h.{number}"
        qkv = product(f"{name}.attn.c_attn", norm(state, f"{name}.ln_1", x, 1e-5))
        parts = [heads_of(part, heads) for part in np.split(qkv, 3, axis=2)]
        x = x + product(f"{name}.attn.c_proj", joined(attention(*parts, allowed)))
        inner = tanh_gelu(product(f"{name}.mlp.c_fc", norm(state, f"{name}.ln_2", x, 1e-5)))
        x = x + product(f"{name}.mlp.c_proj", inner)
        number += 1
    return norm(state, "ln_f", x, 1e-5) @ state["wte.weight"].T
