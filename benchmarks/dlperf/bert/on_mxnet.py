"""BERT on MXNet 1.9.1: interleaved attention and multi-tensor updates, as in gluon-nlp 0.10."""

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from . import on_gluon, recipe

_NORM = {"epsilon": recipe.NORM_EPSILON}
_AGGREGATED = 50  # maximum number of tensors of a call


class Layer(mx.gluon.HybridBlock):
    """Attention and feed-forward network on (length, batch, units)."""

    def __init__(self, units, heads):
        super().__init__()
        self._heads = heads
        with self.name_scope():
            self.qkv = nn.Dense(3 * units, flatten=False, in_units=units)
            self.proj = nn.Dense(units, flatten=False, in_units=units)
            self.attention_norm = nn.LayerNorm(in_channels=units, **_NORM)
            self.expand = nn.Dense(4 * units, flatten=False, in_units=units)
            self.contract = nn.Dense(units, flatten=False, in_units=4 * units)
            self.norm = nn.LayerNorm(in_channels=units, **_NORM)
            self.dropout = nn.Dropout(recipe.DROPOUT)

    def hybrid_forward(self, F, x, lengths):  # noqa: N803
        """Return (length, batch, units) for the same shape."""
        qkv = self.qkv(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self._heads)
        weights = self.dropout(F.softmax(scores, length=lengths, use_length=True, axis=-1))
        mixed = F.contrib.interleaved_matmul_selfatt_valatt(qkv, weights, heads=self._heads)
        x = self.attention_norm(x + self.dropout(self.proj(mixed)))
        inner = self.contract(F.LeakyReLU(self.expand(x), act_type="gelu"))
        return self.norm(x + self.dropout(inner))


class Bert(mx.gluon.HybridBlock):
    """BERT with both objectives; see ``on_gluon.make_objective`` for inputs and outputs."""

    def __init__(self, layers, units, heads, length):
        super().__init__()
        self._heads, self._length = heads, length
        with self.name_scope():
            self.words = nn.Embedding(recipe.VOCABULARY, units)
            self.types = nn.Embedding(2, units)
            self.position = self.params.get("position", shape=(recipe.POSITIONS, units))
            self.embed_norm = nn.LayerNorm(in_channels=units, **_NORM)
            self.dropout = nn.Dropout(recipe.DROPOUT)
            self.layers = nn.HybridSequential()
            for _ in range(layers):
                self.layers.add(Layer(units, heads))
            self.pooler = nn.Dense(units, in_units=units, activation="tanh")
            self.classifier = nn.Dense(2, in_units=units)
            self.transform = nn.Dense(units, flatten=False, in_units=units)
            self.transform_norm = nn.LayerNorm(in_channels=units, **_NORM)
            self.decoder_weight = self.words.weight
            self.decoder_bias = self.params.get("decoder_bias", shape=(recipe.VOCABULARY,))

    def hybrid_forward(
        self,
        F,  # noqa: N803
        tokens,
        segments,
        lengths,
        positions,
        position,
        decoder_weight,
        decoder_bias,
    ):
        """Return the scores of the masked tokens and of the two classes."""
        x = self.words(tokens) + self.types(segments)
        places = F.slice_axis(position, axis=0, begin=0, end=self._length)
        x = F.broadcast_add(x, F.expand_dims(places, axis=0))
        x = F.transpose(self.dropout(self.embed_norm(x)), axes=(1, 0, 2))
        # One length for each row of scores: (batch * heads, length).
        rows = F.repeat(F.reshape(lengths, shape=(-1, 1)), repeats=self._heads, axis=0)
        rows = F.broadcast_axis(rows, axis=1, size=self._length)
        for layer in self.layers._children.values():
            x = layer(x, rows)
        x = F.transpose(x, axes=(1, 0, 2))
        pooled = self.pooler(F.reshape(F.slice_axis(x, axis=1, begin=0, end=1), shape=(0, -1)))
        batch = F.broadcast_like(
            F.expand_dims(F.contrib.arange_like(positions, axis=0), axis=1), positions
        )
        chosen = F.gather_nd(x, F.stack(batch, positions, axis=0))
        chosen = F.LeakyReLU(self.transform(chosen), act_type="gelu")
        chosen = self.transform_norm(chosen)
        scores = F.FullyConnected(
            chosen, decoder_weight, decoder_bias, num_hidden=recipe.VOCABULARY, flatten=False
        )
        return scores, self.classifier(pooled)


def _interleaved(arrays, heads):
    """Return the rows of queries, keys and values with those of one head side by side."""
    parts = [array.reshape(heads, 1, -1, *array.shape[1:]) for array in arrays]
    return np.concatenate(parts, axis=1).reshape(-1, *arrays[0].shape[1:])


def _fill(net, values, heads):
    """Set the parameters to the values with PyTorch's names."""

    def dense(block, name):
        block.weight.set_data(mx.nd.array(values[name + ".weight"]))
        block.bias.set_data(mx.nd.array(values[name + ".bias"]))

    def norm(block, name):
        block.gamma.set_data(mx.nd.array(values[name + ".weight"]))
        block.beta.set_data(mx.nd.array(values[name + ".bias"]))

    embeddings = "bert.embeddings.{}_embeddings.weight"
    net.words.weight.set_data(mx.nd.array(values[embeddings.format("word")]))
    net.types.weight.set_data(mx.nd.array(values[embeddings.format("token_type")]))
    net.position.set_data(mx.nd.array(values[embeddings.format("position")]))
    norm(net.embed_norm, "bert.embeddings.LayerNorm")
    for number, layer in enumerate(net.layers._children.values()):
        name = f"bert.encoder.layer.{number}."
        for kind in ("weight", "bias"):
            parts = [
                values[name + "attention.self." + part + "." + kind]
                for part in ("query", "key", "value")
            ]
            getattr(layer.qkv, kind).set_data(mx.nd.array(_interleaved(parts, heads)))
        dense(layer.proj, name + "attention.output.dense")
        norm(layer.attention_norm, name + "attention.output.LayerNorm")
        dense(layer.expand, name + "intermediate.dense")
        dense(layer.contract, name + "output.dense")
        norm(layer.norm, name + "output.LayerNorm")
    dense(net.pooler, "bert.pooler.dense")
    dense(net.classifier, "cls.seq_relationship")
    dense(net.transform, "cls.predictions.transform.dense")
    norm(net.transform_norm, "cls.predictions.transform.LayerNorm")
    net.decoder_bias.set_data(mx.nd.array(values["cls.predictions.bias"]))


@mx.optimizer.register
class BertAdam(mx.optimizer.Optimizer):
    """AdamW without correction of the moments' bias, many tensors in a call."""

    def __init__(self, beta1, beta2, epsilon, **kwargs):
        super().__init__(**kwargs)
        self._options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        self.aggregate_num = _AGGREGATED

    def create_state(self, index, weight):
        """Return mean and variance, both zero."""
        zeros = [mx.nd.zeros(weight.shape, weight.context, dtype=weight.dtype) for _ in range(2)]
        return tuple(zeros)

    def update(self, index, weight, grad, state):
        """Update one tensor or a list of them; ``rescale_grad`` is an array."""
        if not isinstance(index, (tuple, list)):
            index, weight, grad, state = [index], [weight], [grad], [state]
        self._update_count(index)
        rates = list(self._get_lrs(index))
        mx.nd.contrib.multi_adamw_update(
            weight,
            grad,
            *(list(part) for part in zip(*state)),
            rescale_grad=self.rescale_grad,
            out=weight,
            size=len(weight),
            lrs=[1.0] * len(weight),
            wds=list(self._get_wds(index)),
            etas=rates,
            **self._options,
        )


def _horovod():
    try:
        import horovod.mxnet as hvd
    except ImportError as error:
        raise ImportError(
            "several ranks of MXNet need Horovod: HOROVOD_WITH_MXNET=1 "
            f".venv-mxnet/bin/pip install horovod ({error})"
        ) from error
    return hvd


def prepare(spec, variant):
    """Return the training; see ``on_mxlite.prepare``."""
    ranks = spec["ranks"]
    hvd = _horovod() if ranks > 1 else None  # before anything is built
    layers, units, heads = recipe.sizes(spec)
    net = Bert(layers, units, heads, spec["case"]["size"])
    net.initialize(mx.init.Uniform(0.01), ctx=mx.cpu())
    _fill(net, recipe.values(spec), heads)

    def make_trainer(params, options):
        options = {key: value for key, value in options.items() if key != "multi_precision"}
        if hvd is None:
            trainer = mx.gluon.Trainer(params, "bertadam", options, kvstore=None)
        else:
            hvd.init()
            hvd.broadcast_parameters(params, root_rank=0)
            trainer = hvd.DistributedTrainer(params, "bertadam", options)

        def update(divisor):
            trainer.allreduce_grads()
            grads = [p.list_grad()[0] for p in params.values() if p.grad_req != "null"]
            # Horovod's trainer sums gradients, but the norm is that of their mean.
            squares = mx.nd.multi_sum_sq(*grads, num_arrays=len(grads))
            norm = mx.nd.sqrt(mx.nd.add_n(*squares)) / ranks
            # The value stays on the device, because the update divides by it.
            trainer.update(mx.nd.maximum(norm / recipe.MAX_NORM, 1.0).reshape((1,)))

        return update

    return on_gluon.Training(mx, net, spec, make_trainer)
