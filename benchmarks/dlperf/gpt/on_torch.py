"""GPT on PyTorch: fused causal attention, eager or compiled, half types by autocast."""

import torch
from on_torch import DTYPES
from torch import nn
from torch.nn import functional

from ..torch_training import TorchTraining
from . import recipe


class Attention(nn.Module):
    """Causal self-attention with one projection, and a cache of keys and values for decoding."""

    def __init__(self, units, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(units, 3 * units), nn.Linear(units, units)

    def forward(self, x, cache, begin):
        """Return (batch, length, units) for the same shape; ``begin`` tokens are in the cache."""
        batch, length, units = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, units // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            end = begin + length
            cache[0][:, :, begin:end], cache[1][:, :, begin:end] = key, value
            key, value = cache[0][:, :, :end], cache[1][:, :, :end]
        # A single new token attends to every token in the cache, so it needs no mask. A longer
        # input begins with an empty cache.
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, units))


class FeedForward(nn.Module):
    """Two dense layers with GELU between."""

    def __init__(self, units):
        super().__init__()
        self.expand, self.contract = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)

    def forward(self, x):
        """Return (batch, length, units) for the same shape."""
        return self.contract(functional.gelu(self.expand(x), approximate="tanh"))


class Layer(nn.Module):
    """Attention and feed-forward network, each behind a LayerNorm and beside a residual."""

    def __init__(self, units, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(units, recipe.NORM_EPSILON)
        self.attention = Attention(units, heads)
        self.ffn_norm = nn.LayerNorm(units, recipe.NORM_EPSILON)
        self.ffn = FeedForward(units)

    def forward(self, x, cache, begin):
        """Return (batch, length, units) for the same shape."""
        x = x + self.attention(self.attention_norm(x), cache, begin)
        return x + self.ffn(self.ffn_norm(x))


class Gpt(nn.Module):
    """GPT-2; names of modules are those of mxlite's GPTModel."""

    def __init__(self, layers, units, heads, vocabulary, positions):
        super().__init__()
        self.word_embed = nn.Embedding(vocabulary, units)
        self.position_embed = nn.Embedding(positions, units)
        self.layers = nn.ModuleList(Layer(units, heads) for _ in range(layers))
        self.final_norm = nn.LayerNorm(units, recipe.NORM_EPSILON)

    def forward(self, tokens, caches=None, begin=0):
        """Return the scores of the next tokens, (batch, length, vocabulary)."""
        places = self.position_embed.weight[begin : begin + tokens.shape[1]]
        x = self.word_embed(tokens) + places
        for number, layer in enumerate(self.layers):
            x = layer(x, None if caches is None else caches[number], begin)
        return functional.linear(self.final_norm(x), self.word_embed.weight)


def _network(spec):
    """Return the network with the recipe's parameters."""
    net = Gpt(*recipe.sizes(spec), recipe.positions(spec))
    state = {}
    for name, value in recipe.values(spec).items():
        theirs = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        state[theirs] = torch.from_numpy(value)
    net.load_state_dict(state)
    return net


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
        if spec["case"]["mode"]:
            raise ValueError("PyTorch's script trains data-parallel copies only")
        net = _network(spec).to(self._place)
        self._params = list(net.parameters())
        groups = [
            {
                "params": [p for p in self._params if p.ndim > 1],
                "weight_decay": recipe.WEIGHT_DECAY,
            },
            {"params": [p for p in self._params if p.ndim == 1], "weight_decay": 0.0},
        ]
        self._optimizer = torch.optim.AdamW(
            groups, lr=recipe.LEARNING_RATE, betas=recipe.BETAS, eps=recipe.EPSILON, fused=True
        )
        net = self._distributed(net)

        def objective(tokens, targets):
            with self._autocast():
                scores = net(tokens)
            return functional.cross_entropy(scores.float().flatten(0, 1), targets.flatten())

        self._objective = torch.compile(objective) if variant == "compile" else objective
        self._resident = self._on_device(recipe.resident_batch(spec, spec["rank"], spec["ranks"]))
        self._files = None

    def _on_device(self, batch):
        return [torch.from_numpy(rows).to(self._place, torch.int64) for rows in batch]

    def read_records(self):
        """Take the batches of later steps from the file of tokens."""
        self._files = recipe.file_batches(self._spec, self._spec["rank"], self._spec["ranks"])

    def _loss(self):
        batch = self._resident if self._files is None else self._on_device(next(self._files))
        return self._objective(*batch)

    def _before_update(self):
        nn.utils.clip_grad_norm_(self._params, recipe.MAX_NORM, foreach=True)


class Sampling(TorchTraining):
    """Writes the most likely tokens after a prompt, one in a step; see mxlite's script."""

    def __init__(self, spec, variant):
        super().__init__(spec, recipe.LOSS_SCALE)
        layers, units, heads, _ = recipe.sizes(spec)
        dtype = DTYPES[self._dtype]
        net = _network(spec).to(self._place, dtype)
        shape = (2, spec["case"]["batch"], heads, recipe.positions(spec), units // heads)
        self._caches = [torch.zeros(shape, dtype=dtype, device=self._place) for _ in range(layers)]
        self._net = torch.compile(net, dynamic=True) if variant == "compile" else net
        self._begin, self._end = spec["case"]["size"], recipe.positions(spec)
        prompt = torch.from_numpy(recipe.prompt(spec)).to(self._place, torch.int64)
        self._length = 0
        self._first = self._tokens = self._decode(prompt)[0]

    @torch.inference_mode()
    def _decode(self, tokens):
        """Return the most likely next tokens, (batch, 1), and the loss; see mxlite's script."""
        last = self._net(tokens, self._caches, self._length)[:, -1].float()
        self._length += tokens.shape[1]
        loss = -functional.log_softmax(last, -1).amax(-1).mean()
        return last.argmax(-1, keepdim=True), loss

    def step(self):
        """Write a token of each sequence; return the loss, which :meth:`fetch` reads."""
        if self._length == self._end:
            self._length, self._tokens = self._begin, self._first
        self._tokens, loss = self._decode(self._tokens)
        return loss


def prepare(spec, variant):
    """Return the training, or sampling; see ``on_mxlite.prepare``."""
    return (Sampling if spec["case"]["mode"] == recipe.SAMPLING else Training)(spec, variant)
