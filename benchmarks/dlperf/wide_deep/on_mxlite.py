"""Wide & Deep on mxlite: the model of ``examples/wide_deep``, tables divided among the ranks."""

import mxlite as mx
import mxlite.horovod as hvd

from ..examples import load_example
from ..gluon_training import Measured
from . import recipe

model = load_example("wide_deep", "model")


class Training(Measured):
    """A network with its optimizers and its batches.

    Parameters
    ----------
    spec : dict
        As sweep.py writes it, with ``rank`` and ``ranks``.
    """

    def __init__(self, spec):
        super().__init__(mx, spec, synchronous=True)
        if spec["case"]["dtype"] == "bfloat16":
            from mxlite.contrib import amp

            amp.init(target_dtype="bfloat16")
        dim, layers = recipe.sizes(spec)
        tables = recipe.rows(spec)
        mx.parallel.mesh(data=-1).use()
        config = model.Config(
            recipe.DEEP_FIELDS, recipe.NUMBERS, tables["wide"], tables["deep"], dim, layers,
            recipe.HIDDEN, recipe.DROPOUT, seed=recipe.SEEDS["wide"],
        )  # fmt: skip
        options = {
            "learning_rate": recipe.LEARNING_RATE, "beta1": recipe.BETAS[0],
            "beta2": recipe.BETAS[1], "epsilon": recipe.EPSILON,
        }  # fmt: skip
        optimizer = spec.get("table_optimizer", "adam")
        table_options = options if optimizer == "adam" else {"learning_rate": recipe.LEARNING_RATE}
        self._net = model.WideDeep(config, "data", optimizer, table_options)
        self._net.top.initialize()
        dense = [block for block in self._net.top.deep if isinstance(block, mx.gluon.nn.Dense)]
        for block, (weight, bias) in zip(dense, recipe.dense_values(spec)):
            block.weight.set_data(mx.nd.array(weight))
            block.bias.set_data(mx.nd.array(bias))
        self._net.top.hybridize(static_alloc=True, static_shape=True)
        self._loss = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss()
        params = self._net.top.collect_params()
        self._trainer = hvd.DistributedTrainer(params, "adam", options, process_set="data")
        self._batches = [
            [
                mx.nd.array(batch[key], dtype=batch[key].dtype)
                for key in ("wide", "deep", "numbers", "labels")
            ]
            for batch in recipe.batches(spec)
        ]
        self._steps = 0

    def step(self):
        """Make a step; return its loss, which :meth:`fetch` reads."""
        wide, deep, numbers, labels = self._batches[self._steps % recipe.BATCHES]
        drops = self._steps >= recipe.STEPS_WITHOUT_DROPOUT
        if self._steps == recipe.STEPS_WITHOUT_DROPOUT:
            self._net.top.hybridize(static_alloc=True, static_shape=True)  # forgets the graph
        self._steps += 1
        with mx.autograd.record(train_mode=drops):
            losses = self._loss(self._net(wide, deep, numbers), labels)
        mx.autograd.backward([losses], train_mode=drops)
        self._trainer.step(len(labels))
        self._net.step(len(labels))
        return losses.mean()

    def device_memory(self):
        """Return nothing: tables are in the memory of the host."""
        return {}


def prepare(spec, variant):
    """Return the training, ready for its first step; the only variant is ``"hybrid"``."""
    return Training(spec)
