"""load_weights: names of PyTorch's BERT, RoBERTa, GPT-2 and of gluon-nlp."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
import transformer_reference as reference
from mxlite import nd
from mxlite.base import ShapeError
from mxlite.gluon.contrib.nn import transformer

TOLERANCE = {"rtol": 3e-4, "atol": 3e-4}
VOCABULARY, UNITS, HIDDEN, LAYERS, HEADS, POSITIONS = 30, 12, 20, 2, 3, 10
STATE = reference.bert_state(VOCABULARY, UNITS, HIDDEN, LAYERS, POSITIONS)
TOKENS = np.random.RandomState(0).randint(0, VOCABULARY, (2, 7)).astype("int32")
SEGMENTS = (np.arange(7) > 3).astype("int32") * np.ones((2, 1), "int32")
LENGTHS = np.array([7, 5], "int32")
MASKED = np.array([[1, 4, 6], [0, 2, 3]], "int32")


def model(**options: Any) -> transformer.BERTModel:
    sizes = {"max_length": POSITIONS, **options}
    return transformer.BERTModel(VOCABULARY, UNITS, HIDDEN, LAYERS, HEADS, dropout=0.0, **sizes)


def arrays(*values: np.ndarray) -> list[Any]:
    return [nd.array(value, dtype=value.dtype) for value in values]


def check_pretraining(state: Any, source: str) -> None:
    net = transformer.BERTForPretraining(model())
    transformer.load_weights(net, state, source)
    net.hybridize()
    found = net(*arrays(TOKENS, SEGMENTS, LENGTHS, MASKED))
    sequence = reference.bert(STATE, TOKENS, SEGMENTS, LENGTHS, HEADS)
    for one, other in zip(found, reference.bert_scores(STATE, sequence, MASKED)):
        np.testing.assert_allclose(one.asnumpy(), other, **TOLERANCE)


def gluonnlp_names(state: reference.Arrays) -> reference.Arrays:
    """Return arrays with the names of gluon-nlp 0.10's parameter files."""
    changes = [
        (r"^bert\.embeddings\.word_embeddings", "word_embed.0"),
        (r"^bert\.embeddings\.token_type_embeddings", "token_type_embed.0"),
        (r"^bert\.embeddings\.position_embeddings\.weight", "encoder.position_weight"),
        (r"^bert\.embeddings\.LayerNorm", "encoder.layer_norm"),
        (r"^bert\.encoder\.layer\.(\d+)\.", r"encoder.transformer_cells.\1."),
        (r"attention\.self\.(query|key|value)", r"attention_cell.proj_\1"),
        (r"attention\.output\.dense", "proj"),
        (r"attention\.output\.LayerNorm", "layer_norm"),
        (r"intermediate\.dense", "ffn.ffn_1"),
        (r"(\d+)\.output\.dense", r"\1.ffn.ffn_2"),
        (r"(\d+)\.output\.LayerNorm", r"\1.ffn.layer_norm"),
        (r"^bert\.pooler\.dense", "pooler"),
        (r"^cls\.predictions\.transform\.dense", "decoder.0"),
        (r"^cls\.predictions\.transform\.LayerNorm", "decoder.2"),
        (r"^cls\.predictions\.bias", "decoder.3.bias"),
        (r"^cls\.seq_relationship", "classifier"),
    ]
    named = {}
    for name, array in state.items():
        for pattern, replacement in changes:
            name = re.sub(pattern, replacement, name)
        if re.search(r"layer_norm\.|decoder\.2\.", name):
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        named[name] = array
    named["decoder.3.weight"] = named["word_embed.0.weight"]
    return named


def test_bert_of_pytorch_for_pretraining() -> None:
    extra = {
        "bert.embeddings.position_ids": np.arange(POSITIONS)[None],
        "cls.predictions.decoder.weight": STATE["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": STATE["cls.predictions.bias"],
    }
    check_pretraining({**STATE, **extra}, "bert")


def test_old_names_of_normalizations_and_wrappers() -> None:
    old = {re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", n): a for n, a in STATE.items()}
    old = {f"module.{name}": array for name, array in old.items()}
    old = {re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", n): a for n, a in old.items()}
    check_pretraining(old, "bert")


def test_parameter_files_of_gluonnlp(tmp_path: Path) -> None:
    named = gluonnlp_names(STATE)
    check_pretraining(named, "gluonnlp")
    path = str(tmp_path / "0000001.params")
    nd.save(path, {"bert." + name: nd.array(array) for name, array in named.items()})
    check_pretraining({k: v for k, v in nd.load(path).items()}, "gluonnlp")


@pytest.mark.parametrize("kind", ["model", "classifier"])
def test_the_encoder_alone(kind: str) -> None:
    net = model()
    whole: Any = net
    if kind == "classifier":
        whole = transformer.BERTClassifier(net, 3)
        whole.initialize(mx.init.One())
    transformer.load_weights(whole, STATE, "bert")
    sequence, pooled = net(*arrays(TOKENS, SEGMENTS, LENGTHS))
    expected = reference.bert(STATE, TOKENS, SEGMENTS, LENGTHS, HEADS)
    np.testing.assert_allclose(sequence.asnumpy(), expected, **TOLERANCE)
    first = np.tanh(reference.linear(STATE, "bert.pooler.dense", expected[:, 0]))
    np.testing.assert_allclose(pooled.asnumpy(), first, **TOLERANCE)
    if kind == "classifier":  # its own layer is left alone
        np.testing.assert_array_equal(whole.classifier.weight.data().asnumpy(), np.ones((3, UNITS)))


def test_roberta_of_pytorch() -> None:
    state = reference.bert_state(VOCABULARY, UNITS, HIDDEN, LAYERS, POSITIONS + 2, types=1)
    named = {}
    for name, array in state.items():
        if "pooler" in name or "seq_relationship" in name:
            continue
        name = name.replace("bert.", "roberta.")
        name = name.replace("cls.predictions.transform.dense", "lm_head.dense")
        name = name.replace("cls.predictions.transform.LayerNorm", "lm_head.layer_norm")
        named[name.replace("cls.predictions.bias", "lm_head.bias")] = array
    named["lm_head.decoder.weight"] = named["roberta.embeddings.word_embeddings.weight"]
    backbone = model(token_types=1, layer_norm_eps=1e-5, use_pooler=False)
    net = transformer.BERTForPretraining(backbone, use_nsp=False)
    transformer.load_weights(net, named, "roberta")
    found = net(*arrays(TOKENS, SEGMENTS * 0, LENGTHS, MASKED))
    sequence = reference.bert(state, TOKENS, SEGMENTS * 0, LENGTHS, HEADS, 1e-5, first_position=2)
    expected, _ = reference.bert_scores(state, sequence, MASKED, 1e-5)
    np.testing.assert_allclose(found.asnumpy(), expected, **TOLERANCE)


def test_gpt2_of_pytorch() -> None:
    state = reference.gpt2_state(VOCABULARY, UNITS, LAYERS, POSITIONS)
    extra = {
        "lm_head.weight": state["transformer.wte.weight"],
        "transformer.h.0.attn.bias": np.tril(np.ones((1, 1, POSITIONS, POSITIONS))),
    }
    expected = reference.gpt2(state, TOKENS, HEADS)
    for named in ({**state, **extra}, {n[len("transformer.") :]: a for n, a in state.items()}):
        net = transformer.GPTModel(VOCABULARY, UNITS, None, LAYERS, HEADS, POSITIONS, dropout=0.0)
        transformer.load_weights(net, named, "gpt2")
        np.testing.assert_allclose(net(nd.array(TOKENS)).asnumpy(), expected, **TOLERANCE)


def test_gpt2_of_gluonnlp() -> None:
    state = reference.gpt2_state(VOCABULARY, UNITS, LAYERS, POSITIONS)
    table = {
        "wte.": "_embed.", "wpe.": "_pos_embed.", "ln_f.": "_final_ln.",
        "attn.c_attn": "_self_attention_layers.N._multi_head_qkv_proj",
        "attn.c_proj": "_self_attention_layers.N._out_proj", "ln_1": "_attn_ln.N",
        "mlp.c_fc": "_ffn_layers.N._hidden_map", "mlp.c_proj": "_ffn_layers.N._out_map",
        "ln_2": "_ffn_ln.N",
    }  # fmt: skip
    named = {}
    for name, array in state.items():
        name = name[len("transformer.") :]
        layer = re.match(r"h\.(\d+)\.", name)
        name = name[layer.end() :] if layer else name
        old, new = next(pair for pair in table.items() if name.startswith(pair[0]))
        if "_ln" in new:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        elif layer and name.endswith("weight"):
            array = array.T
        named[name.replace(old, new.replace("N", layer[1] if layer else ""))] = array
    named["_logits_proj.weight"] = named["_embed.weight"]
    net = transformer.GPTModel(VOCABULARY, UNITS, None, LAYERS, HEADS, POSITIONS, dropout=0.0)
    transformer.load_weights(net, named, "gluonnlp")
    expected = reference.gpt2(state, TOKENS, HEADS)
    np.testing.assert_allclose(net(nd.array(TOKENS)).asnumpy(), expected, **TOLERANCE)


def test_tensors_of_pytorch_are_read() -> None:
    class Tensor:
        """A tensor with the members that load_weights uses."""

        def __init__(self, array: np.ndarray) -> None:
            self.array, self.dtype, self.ready = array, "torch.float32", 0

        def detach(self) -> Tensor:
            self.ready += 1
            return self

        cpu = detach

        def numpy(self) -> np.ndarray:
            assert self.ready % 2 == 0 < self.ready  # the tied weight is read twice
            return self.array

    check_pretraining({name: Tensor(array) for name, array in STATE.items()}, "bert")


def changed(**new: Any) -> dict[str, Any]:
    state: dict[str, Any] = dict(STATE)
    for name, array in new.items():
        name = name.replace("__", ".")
        if array is None:
            del state[name]
        else:
            state[name] = array
    return state


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            changed(bert__pooler__dense__bias=None, bert__pooler__dense__extra=np.zeros(1)),
            r"missing pooler.dense.bias; unexpected pooler.dense.extra",
        ),
        (
            changed(bert__encoder__layer__2__output__dense__bias=np.zeros(12)),
            r"missing none; unexpected encoder.layer.2.output.dense.bias; expected a model with",
        ),
        (
            changed(
                bert__pooler__dense__bias=np.zeros(5),
                bert__embeddings__word_embeddings__weight=np.zeros((31, 12)),
            ),
            r"word_embed.weight .*\(31, 12\) given, \(30, 12\) expected; .*pooler.bias .*\(5,\)",
        ),
        ({}, "missing cls.predictions.bias, "),
    ],
)
def test_names_and_shapes_that_differ_are_listed(state: dict[str, Any], words: str) -> None:
    net = transformer.BERTForPretraining(model())
    with pytest.raises(ValueError, match=words) as found:
        transformer.load_weights(net, state, "bert")
    assert isinstance(found.value, mx.MXNetError)
    assert net.backbone.word_embed.weight._data is None  # nothing was changed


@pytest.mark.parametrize(
    ("source", "net", "words"),
    [
        ("xlnet", model, "source must be one of bert, roberta"),
        ("gpt2", model, "net must be a GPTModel .* for 'gpt2', got BERTModel"),
        ("bert", transformer.GPTModel, "net must be a BERTModel, .* for 'bert', got GPTModel"),
        ("roberta", lambda: transformer.BERTForPretraining(model()), "RoBERTa has no next-sent"),
    ],
)
def test_sources_that_do_not_fit_the_network(source: str, net: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        transformer.load_weights(net(), STATE, source)


def test_an_untied_decoder_is_refused_and_a_dropped_twin_is_found() -> None:
    embedding = STATE["bert.embeddings.word_embeddings.weight"]
    net = transformer.BERTForPretraining(model())
    untied = {**STATE, "cls.predictions.decoder.weight": 2 * embedding}
    with pytest.raises(ValueError, match=r"decoder.weight must have the values of embeddings"):
        transformer.load_weights(net, untied, "bert")
    transformer.load_weights(net.backbone, untied, "bert")  # an encoder has no decoder
    bias = {**STATE, "cls.predictions.decoder.bias": STATE["cls.predictions.bias"] + 1}
    with pytest.raises(
        ValueError, match="decoder.bias must have the values of .* the network shares"
    ):
        transformer.load_weights(net, bias, "bert")
    # Files that keep tied arrays once may keep either name.
    kept = changed(cls__predictions__bias=None)
    kept["cls.predictions.decoder.bias"] = STATE["cls.predictions.bias"]
    check_pretraining(kept, "bert")
    gpt2 = reference.gpt2_state(VOCABULARY, UNITS, LAYERS, POSITIONS)
    decoder = transformer.GPTModel(VOCABULARY, UNITS, None, LAYERS, HEADS, POSITIONS)
    with pytest.raises(ValueError, match="lm_head.weight must have the values of .*wte.weight"):
        other = {**gpt2, "lm_head.weight": gpt2["transformer.wte.weight"] + 1}
        transformer.load_weights(decoder, other, "gpt2")


def test_matrices_in_another_orientation_are_said() -> None:
    def turned(state: dict[str, Any], name: str) -> dict[str, Any]:
        return {**state, name: np.ascontiguousarray(state[name].T)}

    gpt2 = reference.gpt2_state(VOCABULARY, UNITS, LAYERS, POSITIONS)
    decoder = transformer.GPTModel(VOCABULARY, UNITS, None, LAYERS, HEADS, POSITIONS)
    words = r"h.0.attn.c_attn.weight\): \(36, 12\) given, \(12, 36\) expected: GPT-2's .*input, out"
    with pytest.raises(ShapeError, match=words):
        other = turned(gpt2, "transformer.h.0.attn.c_attn.weight")
        transformer.load_weights(decoder, other, "gpt2")
    words = r"ffn.expand.weight \(.*\): \(12, 20\) given, \(20, 12\) expected"
    with pytest.raises(ShapeError, match=words):
        other = turned(STATE, "bert.encoder.layer.0.intermediate.dense.weight")
        transformer.load_weights(model(), other, "bert")


@pytest.mark.parametrize("part", [np.zeros((12, 7)), np.zeros(12), np.zeros(())])
def test_parts_that_cannot_be_joined_are_named(part: np.ndarray) -> None:
    name = "bert.encoder.layer.1.attention.self.key.weight"
    words = rf"layer.1.attention.self.key.weight .*{re.escape(str(part.shape))}.*together expected"
    with pytest.raises(ShapeError, match=words):
        transformer.load_weights(model(), {**STATE, name: part}, "bert")


def test_positions_of_roberta_that_are_left_out_are_said() -> None:
    state = reference.bert_state(VOCABULARY, UNITS, HIDDEN, LAYERS, POSITIONS, types=2)
    named = {name.replace("bert.", "roberta."): array for name, array in state.items()}
    words = r"\(10, 12\) given, of which \(8, 12\) remains, \(10, 12\) expected"
    with pytest.raises(ShapeError, match=words):
        transformer.load_weights(model(), named, "roberta")
