"""GPT on mxlite: training and decoding of ``examples/gpt``."""

import mxlite as mx

from ..examples import load_example
from ..gluon_training import ExampleTraining, Measured, use_device
from . import recipe

model, pretrain = load_example("gpt", "model"), load_example("gpt", "pretrain")


class Training(ExampleTraining):
    """The example's training with the parameters and batches of the recipe.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    """

    def __init__(self, spec):
        case = spec["case"]
        layers, units, heads, vocabulary = recipe.sizes(spec)
        (data, tensor, pipeline), micro, recompute = recipe.division(spec)
        options = {
            "mesh": f"data={data},tensor={tensor},pipeline={pipeline}",
            "vocab-size": vocabulary,
            "hidden": units,
            "layers": layers,
            "heads": heads,
            "length": case["size"],
            "batch": case["batch"] * data,
            "lr": recipe.LEARNING_RATE,
            "min-lr": recipe.LEARNING_RATE,
            "warmup": 0,
            "weight-decay": recipe.WEIGHT_DECAY,
            "clip": recipe.MAX_NORM,
            "dropout": 0,
        }
        if micro:
            options["micro-batch"] = micro
        flags = ["--synthetic", *(["--recompute"] if recompute else [])]
        super().__init__(mx, spec, pretrain, options, *flags)
        self._set_values(layers)
        self._copies, self._copy = data, self._training.mesh.coordinate("data")
        self._resident = self._on_device(recipe.resident_batch(spec, self._copy, data))
        self._files = None

    def _set_values(self, layers):
        values, params = recipe.values(self._spec), {}
        for ours, plain in model.plain_names(layers).items():
            value = values[plain]
            if "_qkv_" in ours:
                value = value.reshape(3, -1, *value.shape[1:])
            params[ours] = mx.nd.array(value)
        state = {"params": params, "trainer": None}
        self._training.pipeline.load_state_dict(state, self._training.trainer)

    def _on_device(self, batch):
        return [mx.nd.array(rows, dtype="int32") for rows in batch]

    def read_records(self):
        """Take the batches of later steps from the file of tokens."""
        self._files = recipe.file_batches(self._spec, self._copy, self._copies)

    def step(self):
        """Queue a step; return its losses, which :meth:`fetch` reads, in a list.

        Only the last stage has losses, but all ranks must fetch.
        """
        batch = self._resident if self._files is None else self._on_device(next(self._files))
        return [self._training.step(*batch)]

    def fetch(self, handle):
        """Return the mean loss of a step, of all ranks if there are several stages."""
        (losses,) = handle
        if self._training.mesh.axis_size("pipeline") > 1:
            return self._training.average(losses)
        return float(losses.mean().asscalar())


class Sampling(Measured):
    """Writes the most likely tokens after a prompt, one in a step, with a cache.

    Parameters
    ----------
    spec : dict
        As in :class:`Training`.
    """

    def __init__(self, spec):
        super().__init__(mx, spec, synchronous=True)
        use_device(mx)
        case, dtype = spec["case"], spec["case"]["dtype"]
        layers, units, heads, vocabulary = recipe.sizes(spec)
        length = recipe.positions(spec)
        config = model.Config(units, layers, heads, length, vocabulary, 0.0, divisible_by=1)
        self._net = model.make_plain(config)
        self._net.initialize()
        values = recipe.values(spec)
        for name, param in self._net._collect_params_with_prefix().items():
            if name in values:
                param.set_data(mx.nd.array(values[name]))
        if dtype != "float32":
            self._net.cast(dtype)
        self._net.hybridize(static_alloc=True)
        self._cache = self._net.make_cache(case["batch"], dtype=dtype)
        self._begin = case["size"]
        prompt = mx.nd.array(recipe.prompt(spec), dtype="int32")
        self._first = self._tokens = self._chosen(self._net.decode(prompt, self._cache))[0]

    def _chosen(self, scores):
        """Return the most likely tokens, (batch, 1), and minus the mean logarithm of their share.

        A step's loss is computed from the scores, so that losses differ where scores do.
        """
        last = scores[:, -1].astype("float32")
        tokens = last.argmax(axis=1).astype("int32").reshape((-1, 1))
        return tokens, -mx.nd.log_softmax(last, axis=-1).max(axis=1).mean()

    def step(self):
        """Write a token of each sequence; return the loss, which :meth:`fetch` reads."""
        if self._cache.length == self._cache.max_length:
            self._cache.length, self._tokens = self._begin, self._first
        scores = self._net.decode(self._tokens, self._cache)
        self._tokens, loss = self._chosen(scores)
        return loss


def prepare(spec, variant):
    """Return what trains or samples, with parameters that depend on their names only.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes.
    variant : str
        Only ``"hybrid"``.

    Returns
    -------
    Training or Sampling
        Ready for its first step.
    """
    return (Sampling if spec["case"]["mode"] == recipe.SAMPLING else Training)(spec)
