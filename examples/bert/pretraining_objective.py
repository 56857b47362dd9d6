"""BERT's model sizes, the two losses with their accuracies, and the optimizers of pre-training."""

from __future__ import annotations

import re
from typing import Any

import mxlite as mx
from mxlite import gluon
from mxlite.gluon.contrib.nn.transformer import BERTForPretraining, BERTModel

# Names of the figures that Objective returns behind the loss.
FIGURES = ("mlm_loss_sum", "mlm_correct", "masks", "nsp_loss_sum", "nsp_correct", "sentences")
OPTIMIZERS = ("adamw", "lamb", "bertadam")


def bert_model(name: str, vocab_size: int, max_length: int, dropout: float) -> BERTModel:
    """Return the model with gluon-nlp's name.

    Parameters
    ----------
    name : str
        ``bert_<layers>_<units>_<heads>``, such as ``bert_12_768_12``.
    vocab_size, max_length : int
        Tokens of the vocabulary, and positions.
    dropout : float
        Share of values that become 0 in training.

    Returns
    -------
    BERTModel
    """
    found = re.fullmatch(r"bert_(\d+)_(\d+)_(\d+)", name)
    if found is None:
        raise SystemExit(
            f"bert: --model must be bert_<layers>_<units>_<heads> like bert_12_768_12, got {name}"
        )
    layers, units, heads = map(int, found.groups())
    if not layers or not heads or units % heads:
        raise SystemExit(
            f"bert: --model must have units that are a multiple of the heads, got {name}"
        )
    return BERTModel(vocab_size, units, 4 * units, layers, heads, max_length, dropout=dropout)


class Objective(gluon.HybridBlock):
    """The loss of a batch, and sums from which mean losses and accuracies follow.

    Parameters
    ----------
    model : BERTForPretraining
        The model that is trained.
    """

    def __init__(self, model: BERTForPretraining) -> None:
        super().__init__()
        with self.name_scope():
            self.model = model

    def hybrid_forward(
        self,
        F: Any,  # noqa: N803
        tokens: Any,
        segments: Any,
        lengths: Any,
        positions: Any,
        masked: Any,
        weights: Any,
        labels: Any,
    ) -> Any:
        """Return the loss, and the six figures of :data:`FIGURES` in one array."""
        scores, classes = self.model(tokens, segments, lengths, positions)
        scores = F.log_softmax(F.cast(scores, dtype="float32"), axis=-1)
        classes = F.log_softmax(F.cast(classes, dtype="float32"), axis=-1)
        mlm_sum = -F.sum(F.pick(scores, masked, axis=-1) * weights)
        nsp = -F.pick(classes, labels, axis=-1)
        count = F.sum(weights)
        loss = mlm_sum / (count + 1e-8) + F.mean(nsp)
        guessed = F.argmax(scores, axis=-1) == F.cast(masked, dtype="float32")
        chosen = F.argmax(classes, axis=-1) == F.cast(labels, dtype="float32")
        figures = F.concat(
            F.reshape(mlm_sum, shape=(1,)),
            F.reshape(F.sum(guessed * weights), shape=(1,)),
            F.reshape(count, shape=(1,)),
            F.reshape(F.sum(nsp), shape=(1,)),
            F.reshape(F.sum(chosen), shape=(1,)),
            F.reshape(F.sum(F.ones_like(nsp)), shape=(1,)),
            dim=0,
        )
        return loss, F.stop_gradient(figures)


def on_device(batch: dict[str, Any], ctx: Any) -> list[Any]:
    """Return a batch's arrays in the order of :class:`Objective`'s inputs.

    Parameters
    ----------
    batch : dict of numpy.ndarray
        As in ``pretraining_batches.padded``.
    ctx : Context
        Device to which they are copied.

    Returns
    -------
    list of NDArray
    """
    keys = ("input_ids", "segment_ids", "valid_lengths", "masked_lm_positions", "masked_lm_ids")
    keys += ("masked_lm_weights", "next_sentence_labels")
    return [mx.nd.array(batch[key], ctx=ctx, dtype=batch[key].dtype) for key in keys]


def learning_rate(step: int, steps: int, warm_up: int, highest: float) -> float:
    """Return the rate of a step: linear to the highest in the warm-up, then linear to 0.

    Parameters
    ----------
    step : int
        From 1 to ``steps``.
    steps, warm_up : int
        Steps of the training and of the warm-up.
    highest : float
        Rate at the end of the warm-up.

    Returns
    -------
    float
    """
    if step < warm_up:
        return highest * step / warm_up
    return highest * max(0, steps - step) / max(1, steps - warm_up)


def make_trainer(
    model: BERTForPretraining, optimizer: str, rate: float, backend: str, clip: float
) -> Any:
    """Return a trainer without weight decay on bias, beta and gamma.

    Parameters
    ----------
    model : BERTForPretraining
        The model that is trained.
    optimizer : str
        One of :data:`OPTIMIZERS`; ``bertadam`` is AdamW without correction of the moments' bias.
    rate : float
        Learning rate.
    backend : str
        ``"device"``, ``"horovod"`` or a name of ``mx.kv.create``.
    clip : float
        Greatest norm of all gradients together; 0 for none.

    Returns
    -------
    gluon.Trainer
    """
    for name, parameter in model.collect_params().items():
        if name.endswith(("bias", "beta", "gamma")):
            parameter.wd_mult = 0.0
    options: dict[str, Any] = {"learning_rate": rate, "epsilon": 1e-6, "wd": 0.01}
    if optimizer == "bertadam":
        options["correct_bias"] = False
    name = "adamw" if optimizer == "bertadam" else optimizer
    parameters = model.collect_params()
    norm = clip or None
    if backend == "horovod":
        import mxlite.horovod as hvd

        hvd.broadcast_parameters(parameters, root_rank=0)
        return hvd.DistributedTrainer(parameters, name, options, clip_global_norm=norm)
    store = None if backend == "device" else backend
    return gluon.Trainer(
        parameters, name, options, kvstore=store, update_on_kvstore=False if store else None,
        clip_global_norm=norm,
    )  # fmt: skip
