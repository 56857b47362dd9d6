"""Trainings that continue from a checkpoint bit for bit, and positions of iterators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, checkpoint, gluon, nd
from mxlite.gluon import nn


class Training:
    """A small network with everything that has state: dropout, batch norm, momentum, schedule."""

    def __init__(self, workers: int = 0, contexts: int = 1) -> None:
        rng = np.random.RandomState(5)
        x = rng.randn(70, 6).astype("float32")
        y = (x[:, 0] > 0).astype("float32")
        self.contexts = [mx.cpu(i) for i in range(contexts)]
        self.net = nn.HybridSequential(prefix="net_")
        self.net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dropout(0.5), nn.Dense(2))
        self.net.initialize(mx.init.Xavier(), ctx=self.contexts)
        self.net.hybridize()
        schedule = mx.lr_scheduler.FactorScheduler(step=3, factor=0.7, base_lr=0.05)
        self.trainer = gluon.Trainer(
            self.net.collect_params(), "nadam", {"lr_scheduler": schedule, "wd": 1e-3}
        )
        dataset = gluon.data.ArrayDataset(x, y).transform_first(
            lambda row: row + np.random.normal(0, 0.01, row.shape).astype("float32")
        )
        self.loader = gluon.data.DataLoader(
            dataset, 8, shuffle=True, last_batch="rollover", num_workers=workers
        )
        self.metric = mx.metric.CompositeEvalMetric([mx.metric.Accuracy(), mx.metric.Loss()])
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.epoch = self.step = 0

    def objects(self) -> dict[str, Any]:
        return {
            "net": self.net, "trainer": self.trainer, "data": self.loader, "metric": self.metric,
        }  # fmt: skip

    def save(self, path: Path) -> None:
        checkpoint.save(path, self.objects(), epoch=self.epoch, step=self.step)

    def load(self, path: Path) -> None:
        state = checkpoint.load(path, self.objects())
        self.epoch, self.step = state["epoch"], state["step"]

    def run(self, epochs: int, stop_at: int = -1, path: Path | None = None) -> Any:
        while self.epoch < epochs:
            for x, y in self.loader:
                xs = gluon.utils.split_and_load(x, self.contexts, even_split=False)
                ys = gluon.utils.split_and_load(y, self.contexts, even_split=False)
                with autograd.record():
                    outs = [self.net(part) for part in xs]
                    losses = [self.loss(out, part) for out, part in zip(outs, ys)]
                autograd.backward(losses)
                self.trainer.step(8)
                self.metric.update(ys, outs)
                self.step += 1
                if self.step == stop_at and path is not None:
                    self.save(path)
                    return None
            self.epoch += 1
        params = self.net._collect_params_with_prefix()
        return (
            {name: [a.asnumpy().tobytes() for a in p.list_data()] for name, p in params.items()},
            self.metric.metrics[0].get(),
            self.trainer.learning_rate,
            float(nd.random.normal(shape=(1,)).asscalar()),
            float(np.random.rand()),
        )


def start(**options: Any) -> Training:
    mx.random.seed(11)
    np.random.seed(11)
    return Training(**options)


@pytest.mark.parametrize("optimizer", ["nadam", "sgld"])
def test_numbers_of_a_training_do_not_depend_on_those_in_names(optimizer: str) -> None:
    # Both have a state that the weights use one after another: a schedule, a generator.
    weights = []
    for first in (3, 9):
        mx.random.seed(11)
        layers = [nn.Dense(4, in_units=4, prefix=f"dense{first + i}_") for i in range(2)]
        net = nn.Sequential()
        net.add(*layers)
        net.initialize(mx.init.One())
        trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1})
        for _ in range(2):
            with autograd.record():
                loss = net(nd.ones((2, 4)) * 0.1).square()
            loss.backward()
            trainer.step(2)
        weights.append([p.data().asnumpy() for p in net._collect_params_with_prefix().values()])
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.abs(a - 1).max() > 1e-3


def forget() -> None:
    """Change seeds and random states, as if another process continued."""
    mx.random.seed(99)
    np.random.seed(99)
    nd.random.normal(shape=(100,))


@pytest.mark.parametrize(
    ("stops", "options"),
    [
        ([1], {}),
        ([5], {}),
        ([9], {}),
        ([17], {}),
        ([3, 7], {}),  # resumed twice
        ([6], {"workers": 2}),
        ([6], {"contexts": 2}),
    ],
)
def test_a_training_goes_on_bit_for_bit(tmp_path: Path, stops: list[int], options: Any) -> None:
    epochs = 2 if options else 3
    expected = start(**options).run(epochs)
    path, training = tmp_path / "run.ckpt", start(**options)
    for stop_at in stops:
        training.run(epochs, stop_at, path)
        forget()
        training = Training(**options)
        training.load(path)
        assert training.step == stop_at
    assert training.run(epochs) == expected


def module_run(path: Path | None, stop_at: int = -1, resume: bool = False) -> Any:
    x = np.random.RandomState(0).randn(50, 4).astype("float32")
    y = (x[:, 0] > 0).astype("float32")
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=6, name="fc1")
    net = mx.sym.Dropout(mx.sym.BatchNorm(net, name="bn"), p=0.3)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=2, name="fc2"), name="softmax")
    data = mx.io.NDArrayIter(x, y, 8, shuffle=True, last_batch_handle="roll_over")
    module = mx.mod.Module(net)
    module.bind(data.provide_data, data.provide_label)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", kvstore=mx.kv.create("local"))
    epoch, step = 0, 0
    if resume:
        state = checkpoint.load(path, module=module, data=data)
        epoch, step = state["epoch"], state["step"]
    while epoch < 3:
        for batch in data:
            module.forward_backward(batch)
            module.update()
            step += 1
            if step == stop_at:
                checkpoint.save(path, module=module, data=data, epoch=epoch, step=step)
                return None
        data.reset()
        epoch += 1
    args, aux = module.get_params()
    return {name: value.asnumpy().tobytes() for name, value in {**args, **aux}.items()}


@pytest.mark.parametrize("stop_at", [1, 6, 8, 14])
def test_a_module_goes_on_bit_for_bit(tmp_path: Path, stop_at: int) -> None:
    path, results = tmp_path / "module.ckpt", []
    for stop in (-1, stop_at):
        mx.random.seed(3)
        np.random.seed(3)
        results.append(module_run(path, stop))
    forget()
    assert module_run(path, resume=True) == results[0]


# -- positions of iterators ----------------------------------------------------------------------


def record_file(folder: Path, count: int = 23) -> str:
    path = str(folder / "images.rec")
    writer = mx.recordio.MXIndexedRecordIO(path[:-4] + ".idx", path, "w")
    rng = np.random.RandomState(0)
    for i in range(count):
        picture = rng.randint(0, 255, (12, 14, 3)).astype("uint8")
        header = mx.recordio.IRHeader(0, float(i), i, 0)
        writer.write_idx(i, mx.recordio.pack_img(header, picture, quality=95))
    writer.close()
    return path


def batches(iterator: Any, epochs: int, stop_at: int = -1) -> Any:
    found = []
    for _ in range(epochs):
        for batch in iterator:
            found.append((batch.data[0].asnumpy().tobytes(), batch.label[0].asnumpy().tobytes(),
                          batch.pad))  # fmt: skip
            if len(found) == stop_at:
                return found
        iterator.reset()
    return found


def makers(folder: Path) -> dict[str, Any]:
    path = record_file(folder)
    x, y = np.arange(46.0).reshape(23, 2), np.arange(23.0)

    def image_records(**options: Any) -> Any:
        return mx.io.ImageRecordIter(
            path_imgrec=path, data_shape=(3, 8, 8), batch_size=5, shuffle=True, rand_crop=True,
            rand_mirror=True, seed=4, preprocess_threads=2, verbose=False, **options,
        )  # fmt: skip

    return {
        "ndarray": lambda: mx.io.NDArrayIter(x, y, 5, shuffle=True),
        "roll_over": lambda: mx.io.NDArrayIter(
            x, y, 5, shuffle=True, last_batch_handle="roll_over"
        ),
        "records": image_records,
        "records_without_round": lambda: image_records(round_batch=False),
        "records_skip": lambda: image_records(on_error="skip"),
        "resize": lambda: mx.io.ResizeIter(mx.io.NDArrayIter(x, y, 5, shuffle=True), 7),
        "prefetch": lambda: mx.io.PrefetchingIter(mx.io.NDArrayIter(x, y, 5, shuffle=True)),
        "image": lambda: mx.image.ImageIter(
            5, (3, 8, 8), path_imgrec=path, path_imgidx=path[:-4] + ".idx", shuffle=True,
            rand_crop=True,
        ),
        "image_in_order": lambda: mx.image.ImageIter(5, (3, 8, 8), path_imgrec=path),
    }  # fmt: skip


ITERATORS = (
    "ndarray roll_over records records_without_round records_skip resize prefetch image "
    "image_in_order"
).split()


@pytest.mark.parametrize("name", ITERATORS)
@pytest.mark.parametrize("stop_at", [1, 4, 5, 7])
def test_iterators_go_on(tmp_path: Path, name: str, stop_at: int) -> None:
    import random

    make = makers(tmp_path)[name]

    def seed(value: int) -> None:
        np.random.seed(value)
        random.seed(value)

    seed(1)
    expected = batches(make(), 3)
    seed(1)
    iterator = make()
    begin = batches(iterator, 3, stop_at)
    path = tmp_path / "position.ckpt"
    checkpoint.save(path, data=iterator, epoch=0)
    seed(2)
    resumed = make()
    checkpoint.load(path, data=resumed)
    done = len(begin)
    per_epoch = len(expected) // 3
    rest = batches(resumed, 3 - (done - 1) // per_epoch)
    assert begin + rest == expected


@pytest.mark.parametrize("count", [20, 23])  # the bad record leaves a short last batch of 20
def test_a_bad_record_before_the_position(count: int, tmp_path: Path) -> None:
    path = Path(record_file(tmp_path, count))
    content = bytearray(path.read_bytes())
    offset = int(path.with_suffix(".idx").read_text().splitlines()[1].split()[1])
    content[offset + 40 : offset + 60] = bytes(20)  # the JPEG header of record 1
    path.write_bytes(content)

    def make() -> Any:
        return mx.io.ImageRecordIter(path_imgrec=str(path), data_shape=(3, 8, 8), batch_size=5,
                                     on_error="skip", verbose=False)  # fmt: skip

    expected = batches(make(), 2)
    iterator = make()
    begin = batches(iterator, 2, 2)
    assert iterator.skipped == 1
    resumed = make()
    resumed.load_state_dict(iterator.state_dict())
    assert resumed.skipped == 1
    assert begin + batches(resumed, 2) == expected


def test_positions_of_other_data_are_refused(tmp_path: Path) -> None:
    small = mx.io.NDArrayIter(np.ones((4, 2)), batch_size=2)
    large = mx.io.NDArrayIter(np.ones((6, 2)), batch_size=2)
    with pytest.raises(ValueError, match="num_data 4, but this iterator has 6"):
        large.load_state_dict(small.state_dict())
    with pytest.raises(NotImplementedError, match="define state_dict"):
        mx.io.DataIter().state_dict()
