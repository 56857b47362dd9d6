"""Wide & Deep on PyTorch: sparse EmbeddingBag and Embedding, SparseAdam, compiled dense layers."""

import torch
from torch import nn

from ..torch_training import TorchTraining
from . import recipe


class Top(nn.Module):
    """Dense layers, and the sum with the wide part."""

    def __init__(self, spec):
        super().__init__()
        blocks = []
        for weight, bias in recipe.dense_values(spec):
            layer = nn.Linear(weight.shape[1], weight.shape[0])
            layer.weight.data, layer.bias.data = torch.from_numpy(weight), torch.from_numpy(bias)
            blocks += [layer, nn.ReLU(), nn.Dropout(recipe.DROPOUT)]
        self.deep = nn.Sequential(*blocks[:-2])

    def forward(self, wide, deep, numbers):
        """Return logits, (rows, 1)."""
        return wide + self.deep(torch.cat([deep.flatten(1), numbers], 1)).float()


class Training(TorchTraining):
    """A network with its optimizers and its batches, on one rank.

    Parameters
    ----------
    spec : dict
        As sweep.py writes it, with ``rank`` and ``ranks``.
    variant : str
        ``"eager"`` or ``"compile"``.
    """

    def __init__(self, spec, variant):
        super().__init__(spec, 1.0)
        if spec["ranks"] > 1:
            raise ValueError("wide_deep: PyTorch is measured on one rank only")
        (dim, _), tables = recipe.sizes(spec), recipe.rows(spec)
        self._batches = recipe.batches(spec)
        wide = nn.EmbeddingBag(tables["wide"], 1, mode="sum", sparse=True, _weight=self._table(
            "wide", tables["wide"], 1))  # fmt: skip
        deep = nn.Embedding(tables["deep"], dim, sparse=True, _weight=self._table(
            "deep", tables["deep"], dim))  # fmt: skip
        self._tables = nn.ModuleDict({"wide": wide, "deep": deep})
        self._top = Top(spec).to(self._place).eval()
        self._forward = torch.compile(self._top) if variant == "compile" else self._top
        options = {"lr": recipe.LEARNING_RATE, "betas": recipe.BETAS, "eps": recipe.EPSILON}
        self._sparse = torch.optim.SparseAdam(list(self._tables.parameters()), **options)
        self._optimizer = torch.optim.Adam(self._top.parameters(), fused=True, **options)
        self._objective = nn.BCEWithLogitsLoss()
        self._resident = [
            [
                torch.from_numpy(batch[key]).to(self._place)
                for key in ("wide", "deep", "numbers", "labels")
            ]
            for batch in self._batches
        ]
        self._steps = 0

    def _table(self, name, rows, dim):
        """Return a table whose rows of the batches are those of the other systems."""
        table = torch.empty(rows, dim).uniform_(-recipe.TABLE_SCALE, recipe.TABLE_SCALE)
        for batch in self._batches:
            ids = batch[name].ravel()
            values = recipe.initial_rows(ids, dim, recipe.SEEDS[name])
            table[torch.from_numpy(ids)] = torch.from_numpy(values)
        return table.to(self._place)

    def _loss(self):
        wide, deep, numbers, labels = self._resident[self._steps % recipe.BATCHES]
        if self._steps == recipe.STEPS_WITHOUT_DROPOUT:
            self._top.train()
        self._steps += 1
        self._sparse.zero_grad(set_to_none=True)
        tables = self._tables["wide"](wide), self._tables["deep"](deep)
        with self._autocast():
            scores = self._forward(*tables, numbers)
        return self._objective(scores[:, 0].float(), labels)

    def _before_update(self):
        self._sparse.step()


def prepare(spec, variant):
    """Return the training; see ``on_mxlite.prepare``."""
    return Training(spec, variant)
