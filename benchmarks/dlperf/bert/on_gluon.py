"""The training step in Gluon's API, for MXNet 1.9.1 and mxlite alike (Python 3.8 and later)."""

from ..gluon_training import GluonTraining
from . import recipe


def make_objective(mx, net):
    """Return a block that computes the loss of a batch with a network for pre-training.

    Parameters
    ----------
    mx : module
        mxnet or mxlite.
    net : HybridBlock
        Takes tokens, segments, lengths and masked positions; returns the scores of the masked
        tokens, of shape (batch, masks, vocabulary), and of the two classes.
    """

    class Objective(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.net = net

        def hybrid_forward(self, F, tokens, segments, lengths, positions, masked, weights, labels):  # noqa: N803
            scores, classes = self.net(tokens, segments, lengths, positions)
            scores = F.log_softmax(F.cast(scores, dtype="float32"), axis=-1)
            classes = F.log_softmax(F.cast(classes, dtype="float32"), axis=-1)
            picked = F.pick(scores, masked, axis=-1) * weights
            mlm = -F.sum(picked) / (F.sum(weights) + 1e-8)
            return mlm - F.mean(F.pick(classes, labels, axis=-1))

    return Objective()


class Training(GluonTraining):
    """A network with its trainer and its batches.

    Parameters
    ----------
    mx : module
        mxnet or mxlite.
    net : HybridBlock
        With its parameters filled.
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    make_trainer : callable
        ``make_trainer(parameters, options)`` returns ``step(divisor)``, which averages the
        gradients over the ranks, clips their norm and updates.
    """

    def __init__(self, mx, net, spec, make_trainer):
        super().__init__(mx, net, spec, recipe.LOSS_SCALE)
        self._objective = make_objective(mx, net)
        self._hybridize()
        params = net.collect_params()
        for name, parameter in params.items():
            parameter.wd_mult = 1.0 if recipe.decays(name) else 0.0
        self._update = make_trainer(
            params,
            {
                "learning_rate": recipe.LEARNING_RATE,
                "beta1": recipe.BETAS[0],
                "beta2": recipe.BETAS[1],
                "epsilon": recipe.EPSILON,
                "wd": recipe.WEIGHT_DECAY,
                "multi_precision": self._dtype != "float32",
            },
        )
        self._resident = self._on_device(recipe.resident_batch(spec))
        self._files, self._steps = None, 0

    def _hybridize(self):
        self._objective.hybridize(static_alloc=True, static_shape=True)

    def _on_device(self, batch):
        arrays = [(batch[key], batch[key].dtype) for key in recipe.KEYS]
        return [self._mx.nd.array(a, ctx=self._device, dtype=dtype) for a, dtype in arrays]

    def read_records(self):
        """Take the batches of later steps from the file of samples."""
        self._files = recipe.file_batches(self._spec)

    def step(self):
        """Queue a step; return its loss, which :meth:`fetch` reads."""
        batch = self._resident if self._files is None else self._on_device(next(self._files))
        drops = self._steps >= recipe.STEPS_WITHOUT_DROPOUT
        if self._steps == recipe.STEPS_WITHOUT_DROPOUT:
            self._hybridize()  # forgets the graph without dropout
        self._steps += 1
        with self._mx.autograd.record(train_mode=drops):
            loss = self._objective(*batch)
            scaled = self._scaled(loss)
        self._mx.autograd.backward([scaled], train_mode=drops)
        self._update(self._scale)
        return loss
