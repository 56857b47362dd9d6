"""The training step in Gluon's API, for MXNet 1.9.1 and mxlite alike (Python 3.8 and later)."""

from ..gluon_training import GluonTraining
from . import recipe


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
    horovod : callable
        Imports and returns horovod.mxnet or its counterpart; called for several ranks.
    """

    def __init__(self, mx, net, spec, horovod):
        super().__init__(mx, net, spec, recipe.LOSS_SCALE)
        self._net, self._batch = net, spec["case"]["batch"]
        net.hybridize(static_alloc=True, static_shape=True)
        self._objective = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self._objective.hybridize()
        self._trainer = self._make_trainer(horovod)
        data, label = recipe.resident_batch(spec)
        self._resident = self._on_device(mx.nd.array(data), mx.nd.array(label))
        self._records = None

    def _make_trainer(self, horovod):
        ranks = self._spec["ranks"]
        options = {
            "learning_rate": recipe.LEARNING_RATE * ranks,
            "momentum": recipe.MOMENTUM,
            "wd": recipe.WEIGHT_DECAY,
            "multi_precision": self._dtype != "float32",
        }
        params = self._net.collect_params()
        if ranks == 1:
            return self._mx.gluon.Trainer(params, "nag", options, kvstore=None)
        hvd = horovod()
        hvd.init()
        hvd.broadcast_parameters(params, root_rank=0)
        return hvd.DistributedTrainer(params, "nag", options)

    def _on_device(self, data, label):
        data = data.as_in_context(self._device)
        if self._dtype != "float32":
            data = data.astype(self._dtype)
        return data, label.as_in_context(self._device)

    def read_records(self):
        """Take the batches of later steps from the record file."""
        spec, size = self._spec, self._spec["case"]["size"]
        moments = zip(
            ("mean_r", "mean_g", "mean_b", "std_r", "std_g", "std_b"), recipe.MEAN + recipe.STD
        )
        self._records = self._mx.io.ImageRecordIter(
            path_imgrec=spec["record"],
            path_imgidx=spec["record"][:-3] + "idx",
            data_shape=(3, size, size),
            batch_size=self._batch,
            shuffle=True,
            random_resized_crop=True,
            min_random_area=recipe.AREA[0],
            max_random_area=recipe.AREA[1],
            min_aspect_ratio=recipe.ASPECT[0],
            max_aspect_ratio=recipe.ASPECT[1],
            rand_mirror=True,
            brightness=recipe.JITTER,
            contrast=recipe.JITTER,
            saturation=recipe.JITTER,
            pca_noise=recipe.PCA_NOISE,
            preprocess_threads=spec["threads"],
            prefetch_buffer=4,
            num_parts=spec["ranks"],
            part_index=spec["rank"],
            verbose=False,
            **dict(moments),
        )

    def _next_batch(self):
        if self._records is None:
            return self._resident
        try:
            batch = self._records.next()
        except StopIteration:
            self._records.reset()
            batch = self._records.next()
        return self._on_device(batch.data[0], batch.label[0])

    def step(self):
        """Queue a step; return its loss, which :meth:`fetch` reads."""
        data, label = self._next_batch()
        with self._mx.autograd.record():
            loss = self._objective(self._net(data).astype("float32"), label)
            scaled = self._scaled(loss)
        scaled.backward()
        self._trainer.step(self._batch * self._scale)
        return loss.mean()
