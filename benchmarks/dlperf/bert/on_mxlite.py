"""BERT on mxlite: the model of ``gluon.contrib.nn.transformer``."""

import mxlite as mx
from mxlite.gluon.contrib.nn import transformer

from . import on_gluon, recipe


def prepare(spec, variant):
    """Return the training; the network's parameters depend on their names only.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes.
    variant : str
        Only ``"hybrid"``.

    Returns
    -------
    on_gluon.Training
        Ready for its first step.
    """
    layers, units, heads = recipe.sizes(spec)
    backbone = transformer.BERTModel(
        recipe.VOCABULARY, units, 4 * units, layers, heads, recipe.POSITIONS,
        dropout=recipe.DROPOUT, layer_norm_eps=recipe.NORM_EPSILON,
    )  # fmt: skip
    net = transformer.BERTForPretraining(backbone)
    transformer.load_weights(net, recipe.values(spec), "bert")

    def make_trainer(params, options):
        options = {**options, "correct_bias": False}
        norm = {"clip_global_norm": recipe.MAX_NORM}
        if spec["ranks"] == 1:
            return mx.gluon.Trainer(params, "adamw", options, kvstore=None, **norm).step
        import mxlite.horovod as hvd

        hvd.init()
        hvd.broadcast_parameters(params, root_rank=0)
        return hvd.DistributedTrainer(params, "adamw", options, **norm).step

    return on_gluon.Training(mx, net, spec, make_trainer)
