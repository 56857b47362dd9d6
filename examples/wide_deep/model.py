"""Wide & Deep: two embedding tables that are divided among ranks, and a network on top of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mxlite as mx
import numpy as np
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel


@dataclass(frozen=True)
class Config:
    """Sizes of a network; tables whose rows are None grow."""

    features: int  # ids of a row for the deep table
    numbers: int
    wide_rows: int | None
    deep_rows: int | None
    dim: int = 16
    layers: int = 7
    hidden: int = 1024
    dropout: float = 0.5
    dtype: str = "float32"  # dtype of the tables
    policy: str = "error"
    seed: int = 1234
    cache_rows: int | None = None  # rows of each table that a GPU keeps


class Top(mx.gluon.HybridBlock):
    """The part that every rank has completely: dense layers, and the sum with the wide part."""

    def __init__(self, config: Config, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.deep = nn.HybridSequential()
            width = config.features * config.dim + config.numbers
            for _ in range(config.layers):
                self.deep.add(nn.Dense(config.hidden, activation="relu", in_units=width))
                if config.dropout:
                    self.deep.add(nn.Dropout(config.dropout))
                width = config.hidden
            self.deep.add(nn.Dense(1, in_units=width))

    def hybrid_forward(self, F: Any, wide: Any, deep: Any, numbers: Any) -> Any:  # noqa: N803
        """Return logits (rows, 1) from rows of the tables and numbers of each row."""
        features = F.concat(F.flatten(deep), numbers, dim=1)
        return F.sum(wide, axis=1) + F.cast(self.deep(features), dtype="float32")


class WideDeep(mx.gluon.Block):
    """Logits of rows: ``net(wide ids, deep ids, numbers)`` returns (rows, 1)."""

    def __init__(
        self,
        config: Config,
        axis: str | None,
        optimizer: str,
        optimizer_params: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        options = {
            "optimizer": optimizer, "dtype": config.dtype, "policy": config.policy,
            "init_scale": 0.05, "ctx": mx.current_context(), "cache_rows": config.cache_rows,
        }  # fmt: skip
        with self.name_scope():
            self.wide = parallel.ShardedEmbedding(
                config.wide_rows, 1, axis, optimizer_params=dict(optimizer_params),
                seed=config.seed, prefix="wide_", **options,
            )  # fmt: skip
            self.deep = parallel.ShardedEmbedding(
                config.deep_rows, config.dim, axis, optimizer_params=dict(optimizer_params),
                seed=config.seed + 1, prefix="deep_", **options,
            )  # fmt: skip
            self.top = Top(config)
        self.tables = {"wide": self.wide, "deep": self.deep}

    def forward(self, wide: Any, deep: Any, numbers: Any) -> Any:
        """Return logits."""
        return self.top(self.wide(wide), self.deep(deep), numbers)

    def step(self, batch_size: int) -> None:
        """Update the tables; a Trainer updates the other parameters."""
        for table in self.tables.values():
            table.step(batch_size)


def area_under_curve(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the exact area under the ROC curve; equal scores count half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # mean rank of each distinct score
    positive = labels > 0
    hits, others = int(positive.sum()), int((~positive).sum())
    if not hits or not others:
        return float("nan")
    return float((ranks[inverse][positive].sum() - hits * (hits + 1) / 2) / (hits * others))
