"""BERT on PyTorch: fused attention, eager or compiled, half types by autocast."""

import torch
from torch import nn
from torch.nn import functional

from ..torch_training import TorchTraining
from . import recipe


class Attention(nn.Module):
    """Self-attention with one projection for queries, keys and values."""

    def __init__(self, units, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(units, 3 * units), nn.Linear(units, units)

    def forward(self, x, mask):
        """Return (batch, length, units) for the same shape."""
        batch, length, units = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, units // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        drop = recipe.DROPOUT if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, mask, drop)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, units))


class Layer(nn.Module):
    """Attention and feed-forward network, each followed by residual and normalization."""

    def __init__(self, units, heads):
        super().__init__()
        self.attention = Attention(units, heads)
        self.attention_norm = nn.LayerNorm(units, recipe.NORM_EPSILON)
        self.expand, self.contract = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)
        self.norm = nn.LayerNorm(units, recipe.NORM_EPSILON)
        self.dropout = nn.Dropout(recipe.DROPOUT)

    def forward(self, x, mask):
        """Return (batch, length, units) for the same shape."""
        x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
        inner = self.contract(functional.gelu(self.expand(x)))
        return self.norm(x + self.dropout(inner))


class Bert(nn.Module):
    """BERT with both objectives; the forward pass returns the loss."""

    def __init__(self, layers, units, heads):
        super().__init__()
        self.words = nn.Embedding(recipe.VOCABULARY, units)
        self.types = nn.Embedding(2, units)
        self.positions = nn.Embedding(recipe.POSITIONS, units)
        self.embed_norm = nn.LayerNorm(units, recipe.NORM_EPSILON)
        self.dropout = nn.Dropout(recipe.DROPOUT)
        self.layers = nn.ModuleList(Layer(units, heads) for _ in range(layers))
        self.pooler, self.classifier = nn.Linear(units, units), nn.Linear(units, 2)
        self.transform = nn.Linear(units, units)
        self.transform_norm = nn.LayerNorm(units, recipe.NORM_EPSILON)
        self.decoder_bias = nn.Parameter(torch.zeros(recipe.VOCABULARY))

    def forward(self, tokens, segments, lengths, positions, masked, weights, labels):
        """Return the loss of a batch."""
        length = tokens.shape[1]
        x = self.words(tokens) + self.types(segments) + self.positions.weight[:length]
        x = self.dropout(self.embed_norm(x))
        allowed = torch.arange(length, device=x.device) < lengths[:, None]
        for layer in self.layers:
            x = layer(x, allowed[:, None, None, :])
        classes = self.classifier(torch.tanh(self.pooler(x[:, 0])))
        chosen = x.gather(1, positions[:, :, None].expand(-1, -1, x.shape[2]))
        chosen = self.transform_norm(functional.gelu(self.transform(chosen)))
        scores = functional.linear(chosen, self.words.weight, self.decoder_bias)
        each = functional.cross_entropy(
            scores.float().flatten(0, 1), masked.flatten(), reduction="none"
        )
        flat = weights.flatten()
        mlm = (each * flat).sum() / (flat.sum() + 1e-8)
        return mlm + functional.cross_entropy(classes.float(), labels)


def _fill(net, values):
    """Set the parameters to the values with PyTorch's names."""
    tensors = {name: torch.from_numpy(array) for name, array in values.items()}
    renamed = {
        "decoder_bias": tensors["cls.predictions.bias"],
        "words.weight": tensors["bert.embeddings.word_embeddings.weight"],
        "types.weight": tensors["bert.embeddings.token_type_embeddings.weight"],
        "positions.weight": tensors["bert.embeddings.position_embeddings.weight"],
    }
    names = {
        "embed_norm": "bert.embeddings.LayerNorm",
        "pooler": "bert.pooler.dense",
        "classifier": "cls.seq_relationship",
        "transform": "cls.predictions.transform.dense",
        "transform_norm": "cls.predictions.transform.LayerNorm",
    }
    for number in range(len(net.layers)):
        ours, theirs = f"layers.{number}.", f"bert.encoder.layer.{number}."
        names[ours + "attention.proj"] = theirs + "attention.output.dense"
        names[ours + "attention_norm"] = theirs + "attention.output.LayerNorm"
        names[ours + "expand"] = theirs + "intermediate.dense"
        names[ours + "contract"] = theirs + "output.dense"
        names[ours + "norm"] = theirs + "output.LayerNorm"
        for kind in ("weight", "bias"):
            renamed[f"{ours}attention.qkv.{kind}"] = torch.cat(
                [
                    tensors[f"{theirs}attention.self.{part}.{kind}"]
                    for part in ("query", "key", "value")
                ]
            )
    for mine, theirs in names.items():
        for kind in ("weight", "bias"):
            renamed[f"{mine}.{kind}"] = tensors[f"{theirs}.{kind}"]
    net.load_state_dict(renamed)


class Training(TorchTraining):
    """A network with its optimizer and its batches.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    variant : str
        ``"eager"`` or ``"compile"``.
    """

    def __init__(self, spec, variant):
        super().__init__(spec, recipe.LOSS_SCALE)
        net = Bert(*recipe.sizes(spec))
        _fill(net, recipe.values(spec))
        self._net = net.eval().to(self._place)
        self._params = list(net.parameters())
        self._optimizer = self._make_optimizer()
        net = self._distributed(net)

        def objective(*batch):
            with self._autocast():
                return net(*batch)

        self._objective = torch.compile(objective) if variant == "compile" else objective
        self._resident = self._on_device(recipe.resident_batch(spec))
        self._files, self._steps = None, 0

    def _make_optimizer(self):
        named = list(self._net.named_parameters())
        groups = [
            {"params": [p for n, p in named if _decays(n)], "weight_decay": recipe.WEIGHT_DECAY},
            {"params": [p for n, p in named if not _decays(n)], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(
            groups, lr=recipe.LEARNING_RATE, betas=recipe.BETAS, eps=recipe.EPSILON, fused=True
        )
        # Starts from a step number at which the bias correction of the moments is 1.
        for parameter in self._params:
            optimizer.state[parameter] = {
                "step": torch.tensor(1e6, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return optimizer

    def _on_device(self, batch):
        tensors = []
        for key in recipe.KEYS:
            tensor = torch.from_numpy(batch[key]).to(self._place, non_blocking=True)
            tensors.append(tensor if key == "masked_lm_weights" else tensor.long())
        return tensors

    def read_records(self):
        """Take the batches of later steps from the file of samples."""
        self._files = recipe.file_batches(self._spec)

    def _loss(self):
        batch = self._resident if self._files is None else self._on_device(next(self._files))
        if self._steps == recipe.STEPS_WITHOUT_DROPOUT:
            self._net.train()
        self._steps += 1
        return self._objective(*batch)

    def _before_update(self):
        nn.utils.clip_grad_norm_(self._params, recipe.MAX_NORM, foreach=True)


def _decays(name):
    return recipe.decays(name) and "norm" not in name


def prepare(spec, variant):
    """Return the training; see ``on_mxlite.prepare``."""
    return Training(spec, variant)
