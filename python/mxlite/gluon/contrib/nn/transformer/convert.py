"""Loads parameters of BERT, RoBERTa and GPT-2 from other libraries into this package's models."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..... import ndarray as nd
from .....base import ShapeError, ValueError_
from .....context import Context
from ....block import Block
from .bert import BERTClassifier, BERTForPretraining, BERTModel
from .gpt import GPTModel

__all__ = [
    "SOURCES", "converted_weights", "load_weights", "network_for", "restored_weights",
    "without_module",
]  # fmt: skip

_Arrays = dict[str, np.ndarray]
#: Name of an array of this package, names of its source arrays, and the function that combines
#: them.
_Rule = tuple[str, tuple[str, ...], Callable[..., np.ndarray]]

_BOTH = (("weight", "weight"), ("bias", "bias"))
_NORM = (("gamma", "weight"), ("beta", "bias"))
_SAME_NORM = (("gamma", "gamma"), ("beta", "beta"))


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _transposed(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.T)


def _rows(*arrays: np.ndarray) -> np.ndarray:
    return np.concatenate(arrays)


def _from_position(first: int, array: np.ndarray) -> np.ndarray:
    return array[first:]


def _undone(rule: Callable[..., np.ndarray], array: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the source arrays from which a rule made an array; positions it ignored are zeros."""
    if rule is _rows:
        return np.split(array, count)
    if isinstance(rule, partial):
        unused = np.zeros((*rule.args, array.shape[1]), array.dtype)
        return [np.concatenate([unused, array])]
    return [_transposed(array) if rule is _transposed else array]


def _layer(
    ours: str, theirs: str, names: tuple[tuple[str, str], ...], rule: Any = _same
) -> Iterator[_Rule]:
    for mine, other in names:
        yield f"{ours}.{mine}", (f"{theirs}.{other}",), rule if other == "weight" else _same


def _pytorch_encoder(net: BERTModel, skipped_positions: int) -> Iterator[_Rule]:
    yield "word_embed.weight", ("embeddings.word_embeddings.weight",), _same
    yield "token_type_embed.weight", ("embeddings.token_type_embeddings.weight",), _same
    yield (
        "position_embed.weight",
        ("embeddings.position_embeddings.weight",),
        partial(_from_position, skipped_positions),
    )
    yield from _layer("embed_norm", "embeddings.LayerNorm", _NORM)
    for number in range(net.num_layers):
        ours, theirs = f"layers.{number}", f"encoder.layer.{number}"
        for kind in ("weight", "bias"):
            parts = tuple(
                f"{theirs}.attention.self.{part}.{kind}" for part in ("query", "key", "value")
            )
            yield f"{ours}.attention.qkv.{kind}", parts, _rows
        yield from _layer(f"{ours}.attention.proj", f"{theirs}.attention.output.dense", _BOTH)
        yield from _layer(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm", _NORM)
        yield from _layer(f"{ours}.ffn.expand", f"{theirs}.intermediate.dense", _BOTH)
        yield from _layer(f"{ours}.ffn.contract", f"{theirs}.output.dense", _BOTH)
        yield from _layer(f"{ours}.ffn_norm", f"{theirs}.output.LayerNorm", _NORM)
    if net._use_pooler:
        yield from _layer("pooler", "pooler.dense", _BOTH)


def _pytorch_bert_head(use_nsp: bool) -> Iterator[_Rule]:
    head = "cls.predictions"
    yield "mlm_weight", ("embeddings.word_embeddings.weight",), _same
    yield "mlm_bias", (f"{head}.bias",), _same
    yield from _layer("mlm_transform", f"{head}.transform.dense", _BOTH)
    yield from _layer("mlm_norm", f"{head}.transform.LayerNorm", _NORM)
    if use_nsp:
        yield from _layer("nsp", "cls.seq_relationship", _BOTH)


def _roberta_head(use_nsp: bool) -> Iterator[_Rule]:
    yield "mlm_weight", ("embeddings.word_embeddings.weight",), _same
    yield "mlm_bias", ("lm_head.bias",), _same
    yield from _layer("mlm_transform", "lm_head.dense", _BOTH)
    yield from _layer("mlm_norm", "lm_head.layer_norm", _NORM)
    if use_nsp:
        raise ValueError_(
            "load_weights: with RoBERTa, net must be BERTForPretraining(use_nsp=False), because "
            "RoBERTa has no next-sentence classifier"
        )


def _gluonnlp_encoder(net: BERTModel, skipped_positions: int) -> Iterator[_Rule]:
    yield "word_embed.weight", ("word_embed.0.weight",), _same
    yield "token_type_embed.weight", ("token_type_embed.0.weight",), _same
    yield "position_embed.weight", ("encoder.position_weight",), _same
    yield from _layer("embed_norm", "encoder.layer_norm", _SAME_NORM)
    for number in range(net.num_layers):
        ours, theirs = f"layers.{number}", f"encoder.transformer_cells.{number}"
        for kind in ("weight", "bias"):
            parts = tuple(
                f"{theirs}.attention_cell.proj_{part}.{kind}" for part in ("query", "key", "value")
            )
            yield f"{ours}.attention.qkv.{kind}", parts, _rows
        yield from _layer(f"{ours}.attention.proj", f"{theirs}.proj", _BOTH)
        yield from _layer(f"{ours}.attention_norm", f"{theirs}.layer_norm", _SAME_NORM)
        yield from _layer(f"{ours}.ffn.expand", f"{theirs}.ffn.ffn_1", _BOTH)
        yield from _layer(f"{ours}.ffn.contract", f"{theirs}.ffn.ffn_2", _BOTH)
        yield from _layer(f"{ours}.ffn_norm", f"{theirs}.ffn.layer_norm", _SAME_NORM)
    if net._use_pooler:
        yield from _layer("pooler", "pooler", _BOTH)


def _gluonnlp_head(use_nsp: bool) -> Iterator[_Rule]:
    yield "mlm_weight", ("word_embed.0.weight",), _same
    yield "mlm_bias", ("decoder.3.bias",), _same
    yield from _layer("mlm_transform", "decoder.0", _BOTH)
    yield from _layer("mlm_norm", "decoder.2", _SAME_NORM)
    if use_nsp:
        yield from _layer("nsp", "classifier", _BOTH)


def _gpt2(net: GPTModel) -> Iterator[_Rule]:
    yield "word_embed.weight", ("wte.weight",), _same
    yield "output_weight", ("wte.weight",), _same
    yield "position_embed.weight", ("wpe.weight",), _same
    for number in range(net.num_layers):
        ours, theirs = f"layers.{number}", f"h.{number}"
        # GPT-2 stores its matrices as (input, output).
        yield from _layer(f"{ours}.attention.qkv", f"{theirs}.attn.c_attn", _BOTH, _transposed)
        yield from _layer(f"{ours}.attention.proj", f"{theirs}.attn.c_proj", _BOTH, _transposed)
        yield from _layer(f"{ours}.attention_norm", f"{theirs}.ln_1", _NORM)
        yield from _layer(f"{ours}.ffn.expand", f"{theirs}.mlp.c_fc", _BOTH, _transposed)
        yield from _layer(f"{ours}.ffn.contract", f"{theirs}.mlp.c_proj", _BOTH, _transposed)
        yield from _layer(f"{ours}.ffn_norm", f"{theirs}.ln_2", _NORM)
    yield from _layer("final_norm", "ln_f", _NORM)


def _gluonnlp_gpt2(net: GPTModel) -> Iterator[_Rule]:
    yield "word_embed.weight", ("_embed.weight",), _same
    yield "output_weight", ("_embed.weight",), _same
    yield "position_embed.weight", ("_pos_embed.weight",), _same
    for number in range(net.num_layers):
        ours, attention = f"layers.{number}", f"_self_attention_layers.{number}"
        yield from _layer(f"{ours}.attention.qkv", f"{attention}._multi_head_qkv_proj", _BOTH)
        yield from _layer(f"{ours}.attention.proj", f"{attention}._out_proj", _BOTH)
        yield from _layer(f"{ours}.attention_norm", f"_attn_ln.{number}", _SAME_NORM)
        yield from _layer(f"{ours}.ffn.expand", f"_ffn_layers.{number}._hidden_map", _BOTH)
        yield from _layer(f"{ours}.ffn.contract", f"_ffn_layers.{number}._out_map", _BOTH)
        yield from _layer(f"{ours}.ffn_norm", f"_ffn_ln.{number}", _SAME_NORM)
    yield from _layer("final_norm", "_final_ln", _SAME_NORM)


#: Rules of the decoder, prefix of the model's names, pattern of names to ignore.
_GPT = {
    "gpt2": (_gpt2, "transformer.", r"h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight"),
    "gluonnlp": (_gluonnlp_gpt2, "", r"_logits_proj\.weight"),
}
#: Rules of the encoder and of the head, number of unused first positions, prefix of the encoder's
#: names, pattern of names to ignore because they are tied or hold no parameter.
_BERT = {
    "bert": (
        _pytorch_encoder, _pytorch_bert_head, 0, "bert.",
        r"embeddings\.position_ids|cls\.predictions\.decoder\.(weight|bias)",
    ),
    "roberta": (
        _pytorch_encoder, _roberta_head, 2, "roberta.",
        r"embeddings\.position_ids|lm_head\.decoder\.(weight|bias)",
    ),
    "gluonnlp": (_gluonnlp_encoder, _gluonnlp_head, 0, "bert.", r"decoder\.3\.weight"),
}  # fmt: skip
#: Arrays of the decoder, by the array that must be equal, because this package's networks tie them.
_TIED = {
    "bert": {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "roberta": {
        "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    "gluonnlp": {"decoder.3.weight": "word_embed.0.weight", "_logits_proj.weight": "_embed.weight"},
    "gpt2": {"lm_head.weight": "wte.weight"},
}
# Names of heads that a file may contain although the network does not have them.
_HEADS = r"(cls|lm_head|classifier|pooler|decoder)\."

#: Values of the argument ``source`` of `load_weights`.
SOURCES = (*_BERT, "gpt2")


def load_weights(
    net: Block, state: Mapping[str, Any], source: str, ctx: Context | None = None
) -> None:
    """Set a model's parameters to those of another library.

    Heads that the network does not have are left out. The classifier of a `BERTClassifier`, which
    no file has, keeps its values and must be initialized. RoBERTa's first two positions are not
    loaded, because RoBERTa never uses them: 512 of 514 remain.

    Parameters
    ----------
    net : BERTModel, BERTForPretraining, BERTClassifier or GPTModel
        Has the same size as the source.
    state : mapping of str to array
        NumPy arrays, NDArrays or PyTorch tensors by name: a ``state_dict()`` of PyTorch, or
        ``mx.nd.load`` of a ``.params`` file of gluon-nlp.
    source : {'bert', 'roberta', 'gluonnlp', 'gpt2'}
        Class that the names come from: ``BertModel`` or ``BertForPreTraining``, ``RobertaModel``
        or ``RobertaForMaskedLM``, gluon-nlp's ``BERTModel``, ``BERTForPretrain`` or ``GPT2Model``,
        transformers' ``GPT2Model`` or ``GPT2LMHeadModel``; each with or without the prefix of the
        inner model.
    ctx : Context, optional
        For parameters without values; the current one by default.

    Raises
    ------
    ValueError
        If names are missing or unexpected; the message lists all of them. Also if the decoder's
        weight differs from the word embedding, because these networks share one weight.
    ShapeError
        If shapes differ; all of them are listed.
    """
    parameters = net._collect_params_with_prefix()
    for name, _, array in converted_weights(net, state, source)[0]:
        parameter = parameters[name]
        if parameter._data is None:
            parameter.initialize(ctx=ctx)
        parameter.set_data(nd.array(array, dtype=parameter.dtype))


def converted_weights(
    net: Block, state: Mapping[str, Any], source: str
) -> tuple[list[tuple[str, tuple[str, ...], np.ndarray]], list[str]]:
    """Return name, names of the source and values of each parameter; see `load_weights`.

    The list that follows has the names of heads that the network does not have.
    """
    rules, prefix, ignored, leaves_heads = _rules(net, source)
    arrays = _renamed(state, prefix)
    used = {name for _, names, _ in rules for name in names}
    if isinstance(net, (BERTForPretraining, GPTModel)):
        _check_tied(arrays, source)
    missing = sorted(used - set(arrays))
    unused = [name for name in arrays if name not in used and not re.match(ignored, name)]
    unknown = sorted(name for name in unused if not (leaves_heads and re.match(_HEADS, name)))
    if missing or unknown:
        raise ValueError_(
            f"load_weights: the names are not those of {source} for this "
            f"{type(net).__name__}: missing {_listed(missing)}; unexpected {_listed(unknown)}; "
            "expected a model with the same number of layers and heads"
        )
    given = {part: _array(arrays[part]) for part in used}
    parameters = net._collect_params_with_prefix()
    made, wrong = {}, []
    for name, names, rule in rules:
        parts, expected = [given[part] for part in names], parameters[name].shape
        try:
            made[name] = rule(*parts)
        except (IndexError, ValueError):  # arrays whose shapes do not allow slicing or joining
            made[name] = np.empty(())
        if made[name].shape != expected:
            shapes = " + ".join(str(part.shape) for part in parts)
            needed = _needed(rule, made[name].shape, expected or ())
            wrong.append(f"{name} ({' + '.join(names)}): {shapes} given, {needed}")
    if wrong:
        raise ShapeError(f"load_weights: shapes of {source} differ: {'; '.join(wrong)}")
    return [(name, names, made[name]) for name, names, _ in rules], unused


def network_for(state: Mapping[str, Any], source: str) -> Block:
    """Return a network without values whose sizes are those of the arrays of a source.

    The number of attention heads, which no shape shows, is 1.
    """
    decoder = source == "gpt2" or "_embed.weight" in state
    probe: Block = GPTModel(1, 1, num_layers=1, num_heads=1)
    if not decoder:
        probe = BERTForPretraining(BERTModel(1, 1, 1, 1, 1), source != "roberta")
    rules, prefix, *_ = _rules(probe, source)
    shapes = {name: tuple(array.shape) for name, array in _renamed(state, prefix).items()}
    places = {ours.replace("backbone.", "", 1): theirs[0] for ours, theirs, _ in rules}

    def shape(ours: str, axes: int) -> tuple[int, ...]:
        found = shapes.get(places[ours], ())
        if len(found) != axes:
            given = f"shape {found}" if places[ours] in shapes else "no such name"
            raise ValueError_(
                f"network_for: {places[ours]!r} of {source} must have {axes} axes, got {given}"
            )
        return found

    first = places["layers.0.ffn.expand.weight"]
    layers = 0
    while first.replace(".0.", f".{layers}.") in shapes:
        layers += 1
    vocabulary, units = shape("word_embed.weight", 2)
    hidden = math.prod(shape("layers.0.ffn.expand.weight", 2)) // max(units, 1)
    positions = shape("position_embed.weight", 2)[0]
    if decoder:
        return GPTModel(vocabulary, units, hidden, layers, 1, positions)
    net = BERTModel(
        vocabulary, units, hidden, layers, 1, positions - _BERT[source][2],
        shape("token_type_embed.weight", 2)[0], use_pooler=places["pooler.weight"] in shapes,
    )  # fmt: skip
    if places["mlm_bias"] not in shapes:
        return net
    return BERTForPretraining(net, places.get("nsp.weight") in shapes)


def restored_weights(state: Mapping[str, Any], source: str) -> list[tuple[str, str, np.ndarray]]:
    """Return (name in the source, name in this package, values) of each array of a source.

    It undoes `converted_weights` for all arrays of a BERTModel, BERTForPretraining or GPTModel.
    Names of an encoder with heads have the prefix of the inner model.

    Raises
    ------
    ValueError
        If names are missing, or have no counterpart; the message lists them.
    """
    names = {name.replace("backbone.", "", 1): name for name in state}
    arrays = {short: _array(state[name]) for short, name in names.items()}
    rules, prefix, *_ = _rules(_network_of(arrays), source)
    found: dict[str, tuple[str, str, np.ndarray]] = {}
    missing, used = [], set()
    for name, theirs, rule in rules:
        mine = name.replace("backbone.", "", 1)
        if mine not in arrays:
            missing += [] if theirs[0] in found else [mine]  # a tied weight may be left out
            continue
        used.add(mine)
        before = prefix if name.startswith("backbone.") else ""
        for their, part in zip(theirs, _undone(rule, arrays[mine], len(theirs))):
            found.setdefault(their, (before + their, names[mine], part))
    unknown = sorted(name for short, name in names.items() if short not in used)
    if missing or unknown:
        raise ValueError_(
            f"restored_weights: the names must be those of a network for {source}: missing "
            f"{_listed(missing)}; unexpected {_listed(unknown)}"
        )
    return list(found.values())


def _network_of(arrays: Mapping[str, np.ndarray]) -> Block:
    """Return an uninitialized network whose parameters have the names of the arrays."""
    needed = ("word_embed.weight", "position_embed.weight", "layers.0.ffn.expand.weight")
    for name in needed:
        if name not in arrays or arrays[name].ndim != 2:
            raise ValueError_(
                f"restored_weights: {name!r} must be a matrix among the arrays, got "
                + ("none" if name not in arrays else f"shape {arrays[name].shape}")
            )
    (vocabulary, units), (positions, _), (hidden, _) = (arrays[name].shape for name in needed)
    layers = sum(bool(re.fullmatch(r"layers\.\d+\.ffn\.expand\.weight", n)) for n in arrays)
    if "token_type_embed.weight" not in arrays:
        return GPTModel(vocabulary, units, hidden, layers, 1, positions)
    net = BERTModel(
        vocabulary, units, hidden, layers, 1, positions, len(arrays["token_type_embed.weight"]),
        use_pooler="pooler.weight" in arrays,
    )  # fmt: skip
    return BERTForPretraining(net, "nsp.weight" in arrays) if "mlm_bias" in arrays else net


def _renamed(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return arrays by their names without prefixes, in the current spelling."""
    names = {name: without_module(name) for name in state}
    return {
        _modern(short[len(prefix) :] if short.startswith(prefix) else short): state[name]
        for name, short in names.items()
    }


def _check_tied(arrays: dict[str, Any], source: str) -> None:
    """Raise ValueError_ if two tied arrays differ; a missing one is set to the other."""
    for name, other in _TIED[source].items():
        if name not in arrays:
            continue
        mine, theirs = _array(arrays[name]), _array(arrays.setdefault(other, arrays[name]))
        if not np.array_equal(mine, theirs):
            raise ValueError_(
                f"load_weights: {name} must have the values of {other} of shape {theirs.shape}, "
                f"because the network shares them, got other values of shape {mine.shape}"
            )


def _needed(
    rule: Callable[..., np.ndarray], found: tuple[int, ...], expected: tuple[int, ...]
) -> str:
    """Return the words of an error text that state the expected shape."""
    if rule is _transposed:
        return f"{expected[::-1]} expected: GPT-2's matrices are (input, output)"
    if rule is _rows:
        return f"{expected} together expected: matrices are (output, input)"
    if rule is _same:
        return f"{expected} expected"
    return f"of which {found} remains, {expected} expected"


def _rules(net: Block, source: str) -> tuple[list[_Rule], str, str, bool]:
    """Return (rules of a network, prefix of names, pattern of names to ignore, lacks heads).

    The last one tells whether the network lacks heads that the source may have.
    """
    if source not in SOURCES:
        raise ValueError_(
            f"load_weights: source must be one of {', '.join(SOURCES)}, got {source!r}"
        )
    if source == "gpt2" or (isinstance(net, GPTModel) and source in _GPT):
        if not (isinstance(net, GPTModel) and net._learned and net._pre_norm):
            raise ValueError_(
                "load_weights: net must be a GPTModel with learned positions and pre_norm for "
                f"{source!r}, got {type(net).__name__}"
            )
        decoder, prefix, ignored = _GPT[source]
        return list(decoder(net)), prefix, ignored, False
    encoder, head, skipped, prefix, ignored = _BERT[source]
    if isinstance(net, BERTModel):
        return list(encoder(net, skipped)), prefix, ignored, True
    if not isinstance(net, (BERTForPretraining, BERTClassifier)):
        raise ValueError_(
            "load_weights: net must be a BERTModel, BERTForPretraining or BERTClassifier for "
            f"{source!r}, got {type(net).__name__}"
        )
    rules = [
        (f"backbone.{name}", names, rule) for name, names, rule in encoder(net.backbone, skipped)
    ]
    if isinstance(net, BERTClassifier):
        return rules, prefix, ignored, True
    return [*rules, *head(net._use_nsp)], prefix, ignored, not net._use_nsp


def without_module(name: str) -> str:
    """Remove the prefixes that data-parallel wrappers and ``mx.nd.save`` add."""
    for prefix in ("module.", "arg:", "aux:"):
        name = name[len(prefix) :] if name.startswith(prefix) else name
    return name


def _modern(name: str) -> str:
    """Return the current name of a parameter that early conversions call gamma or beta."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _array(value: Any) -> np.ndarray:
    """Return a NumPy array of an NDArray, a tensor on any device, or an array."""
    if hasattr(value, "asnumpy"):
        return np.asarray(value.asnumpy())
    if hasattr(value, "detach"):  # a PyTorch tensor
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return np.asarray(value)


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
