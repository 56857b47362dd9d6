"""GPT-2 in stages of a pipeline, whose layers are divided along the mesh's axis ``tensor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mxlite as mx
from mxlite import gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel
from mxlite.gluon.contrib.nn.transformer import GPTModel

STD = 0.02  # standard deviation of initial weights, as in GPT-2
PREFIX = "gpt_"


@dataclass(frozen=True)
class Config:
    """Sizes of a network; ``vocabulary`` is that of the tokenizer, before padding."""

    hidden: int = 768
    layers: int = 12
    heads: int = 12
    length: int = 1024
    vocabulary: int = 50257
    dropout: float = 0.1
    sequence_parallel: bool = False
    divisible_by: int = 128

    @property
    def padded_vocabulary(self) -> int:
        """Rows of the token table; the same for any mesh, so that checkpoints fit any mesh."""
        return -(-self.vocabulary // self.divisible_by) * self.divisible_by

    @property
    def sequence_axis(self) -> int | None:
        """Axis along which activations are divided between the parallel layers."""
        return 1 if self.sequence_parallel else None


def _norm(config: Config, prefix: str) -> nn.LayerNorm:
    if config.sequence_parallel:
        return parallel.SequenceParallelLayerNorm(
            "tensor", in_channels=config.hidden, prefix=prefix
        )
    return nn.LayerNorm(in_channels=config.hidden, prefix=prefix)


class Layer(gluon.HybridBlock):
    """Attention and a feed-forward network, each behind a LayerNorm and beside a residual."""

    def __init__(self, config: Config, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        small = mx.init.Normal(STD / (2 * config.layers) ** 0.5)
        options = {"flatten": False, "sequence_axis": config.sequence_axis}
        with self.name_scope():
            self.norm1, self.norm2 = _norm(config, "norm1_"), _norm(config, "norm2_")
            self.attention = parallel.ParallelSelfAttention(
                config.hidden,
                config.heads,
                "tensor",
                causal=True,
                dropout=config.dropout,
                sequence_axis=config.sequence_axis,
                proj_initializer=small,
                prefix="attention_",
            )
            self.up = parallel.ColumnParallelDense(
                4 * config.hidden, "tensor", in_units=config.hidden, prefix="up_", **options
            )
            self.down = parallel.RowParallelDense(
                config.hidden,
                "tensor",
                in_units=4 * config.hidden,
                weight_initializer=small,
                prefix="down_",
                **options,
            )
            self.dropout = nn.Dropout(config.dropout)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Return (batch, length of this rank, hidden)."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        inner = F.LeakyReLU(self.up(self.norm2(x)), act_type="gelu_tanh")
        return x + self.dropout(self.down(inner))


class Embedding(gluon.HybridBlock):
    """Adds rows of the token table and of the position table."""

    def __init__(self, config: Config, mesh: mx.parallel.Mesh, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._first, self._last = 0, config.length
        self._group = None  # ranks whose gradients of the positions are summed
        if config.sequence_parallel and mesh.axis_size("tensor") > 1:
            part = config.length // mesh.axis_size("tensor")
            self._first = part * mesh.coordinate("tensor")
            self._last = self._first + part
            self._group = mesh.group("tensor")
        with self.name_scope():
            self.tokens = parallel.VocabParallelEmbedding(
                config.padded_vocabulary,
                config.hidden,
                "tensor",
                sequence_axis=config.sequence_axis,
                prefix="tokens_",
            )
            self.positions = self.params.get("positions", shape=(config.length, config.hidden))
            self.dropout = nn.Dropout(config.dropout)

    def hybrid_forward(self, F: Any, tokens: Any, positions: Any) -> Any:  # noqa: N803
        """Return (batch, length of this rank, hidden)."""
        if self._group is not None:
            positions = F.contrib.sum_gradient(positions, process_set=self._group)
        own = F.slice_axis(positions, axis=0, begin=self._first, end=self._last)
        return self.dropout(F.broadcast_add(self.tokens(tokens), F.expand_dims(own, axis=0)))


def _head(config: Config, embedding: Embedding) -> nn.HybridSequential:
    """Return the last LayerNorm and products with the rows of the token table."""
    head = nn.HybridSequential(prefix=f"{PREFIX}head_")
    with head.name_scope():
        head.add(_norm(config, "norm_"))
    head.add(
        parallel.ColumnParallelDense(
            config.padded_vocabulary,
            "tensor",
            in_units=config.hidden,
            use_bias=False,
            flatten=False,
            allow_uneven=True,
            sequence_axis=config.sequence_axis,
            params=embedding.tokens.params,
        )
    )
    return head


def make_stages(config: Config, mesh: mx.parallel.Mesh) -> list[nn.HybridSequential]:
    """Return one stage for each rank along ``pipeline``; the first and the last share the table."""
    count, tensor = mesh.axis_size("pipeline"), mesh.axis_size("tensor")
    if config.layers % count:
        raise SystemExit(f"gpt: {config.layers} layers do not divide into {count} stages")
    if config.sequence_parallel and config.length % tensor:
        raise SystemExit(f"gpt: length {config.length} does not divide among {tensor} tensor ranks")
    embedding = Embedding(config, mesh, prefix=f"{PREFIX}embedding_")
    layers = [Layer(config, prefix=f"{PREFIX}layer{i}_") for i in range(config.layers)]
    head = _head(config, embedding)
    stages = []
    size = config.layers // count
    for number in range(count):
        stage = nn.HybridSequential(prefix=PREFIX)
        if number == 0:
            stage.add(embedding)
        stage.add(*layers[number * size : (number + 1) * size])
        if number == count - 1:
            stage.add(head)
        stages.append(stage)
    return stages


def initialize(stages: list[nn.HybridSequential], own: int, seed: int) -> None:
    """Initialize a stage with values that do not depend on the mesh."""
    number = 0  # counts the blocks of the whole network; each has a seed of its own
    for position, stage in enumerate(stages):
        for block in stage:
            if position == own:
                mx.random.seed(seed + number)
                # With one stage the embedding has initialized the table; with several, the first
                # step replaces the last stage's copy.
                is_shared = block is stages[-1][-1] and len(stages) == 1
                (block[0] if is_shared else block).initialize(mx.init.Normal(STD))
            number += 1
    mx.random.seed(seed)  # the same dropout on all ranks of a tensor group


def plain_names(layers: int) -> dict[str, str]:
    """Return the names in `GPTModel` of the parameters here, by the names here."""
    names = {"embedding_tokens_weight": "word_embed.weight"}
    names["embedding_positions"] = "position_embed.weight"
    blocks = {"head_norm_": ("final_norm.", ("gamma", "beta"))}
    for i in range(layers):
        for ours, theirs, kinds in (
            ("norm1_", "attention_norm.", ("gamma", "beta")),
            ("attention_qkv_", "attention.qkv.", ("weight", "bias")),
            ("attention_proj_", "attention.proj.", ("weight", "bias")),
            ("norm2_", "ffn_norm.", ("gamma", "beta")),
            ("up_", "ffn.expand.", ("weight", "bias")),
            ("down_", "ffn.contract.", ("weight", "bias")),
        ):
            blocks[f"layer{i}_{ours}"] = (f"layers.{i}.{theirs}", kinds)
    for ours, (theirs, kinds) in blocks.items():
        names |= {ours + kind: theirs + kind for kind in kinds}
    return {PREFIX + ours: theirs for ours, theirs in names.items()}


def make_plain(config: Config) -> GPTModel:
    """Return a network of one process of the same sizes, which decodes with a cache."""
    return GPTModel(
        config.padded_vocabulary,
        config.hidden,
        num_layers=config.layers,
        num_heads=config.heads,
        max_length=config.length,
        dropout=config.dropout,
    )
