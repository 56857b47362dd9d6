"""Texts that say what an object is."""

from __future__ import annotations

from pathlib import Path

import mxlite as mx
from mxlite import gluon, nd


def test_objects_of_a_training_say_what_they_are() -> None:
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    assert repr(trainer) == "Trainer(SGD(learning_rate=0.5, wd=0.0), 2 parameters)"
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset([1, 2, 3]), 2)
    assert repr(loader) == "DataLoader(ArrayDataset of 3 samples, num_workers=0)"
    metric = mx.metric.Accuracy()
    assert repr(metric) == "Accuracy(name='accuracy')"
    assert str(metric).startswith("EvalMetric: {'accuracy'")
    schedule = mx.lr_scheduler.FactorScheduler(100, 0.5, base_lr=0.2)
    assert repr(schedule).startswith("FactorScheduler(step=100, factor=0.5, ")
    assert "base_lr=0.2" in repr(schedule)


def test_data_and_stores_say_what_they_are(tmp_path: Path) -> None:
    batches = mx.io.NDArrayIter(nd.zeros((4, 3)), nd.zeros(4), 2)
    assert repr(batches) == "NDArrayIter(data (2, 3), softmax_label (2,))"
    batch = next(batches)
    assert repr(batch) == str(batch) == "DataBatch: data shapes: [(2, 3)] label shapes: [(2,)]"
    assert repr(mx.io.ResizeIter(batches, 1)) == "ResizeIter(data (2, 3), softmax_label (2,))"
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2\n3,4\n")
    rows_iter = mx.io.CSVIter(data_csv=str(rows), data_shape=(2,), batch_size=1)
    assert repr(rows_iter) == "CSVIter(data (1, 2), softmax_label (1,))"
    assert repr(mx.io.DataIter(8)) == "DataIter(batch_size=8)"
    data = gluon.data.ArrayDataset(nd.zeros((4, 3)))
    assert repr(data) == "ArrayDataset of 4 samples"
    assert repr(data.transform(abs)) == "ArrayDataset of 4 samples, transformed"
    assert repr(data.take(2)) == "2 samples of ArrayDataset of 4 samples"
    sampler = gluon.data.RandomSampler(5)
    assert repr(sampler) == "RandomSampler of 5 samples"
    batches_of_two = gluon.data.BatchSampler(sampler, 2, "discard")
    options = "batch_size=2, last_batch='discard'"
    assert repr(batches_of_two) == f"BatchSampler(RandomSampler of 5 samples, {options})"
    assert repr(mx.kv.create("local")) == "KVStore('local', rank 0 of 1)"


def test_objects_of_incomplete_classes_have_the_usual_text() -> None:
    class Data(gluon.data.Dataset): ...

    class Order(gluon.data.Sampler): ...

    class Store(mx.kv.KVStoreBase): ...

    class Batches(mx.io.DataIter):
        def __init__(self) -> None:
            pass

    for kind in (Data, Order, Store):
        assert repr(kind()).startswith("<") and kind.__name__ in repr(kind())
    assert repr(Batches()) == "Batches(batch_size=None)"


def test_arrays_of_bfloat16_say_so() -> None:
    array = nd.ones((2, 3))
    assert repr(array).endswith("<NDArray 2x3 @cpu(0)>")
    assert repr(array.astype("bfloat16")).endswith("<NDArray 2x3 bfloat16 @cpu(0)>")
    values = nd.array([1, 0.1, 2.5]).astype("bfloat16")
    assert str(values) == "\n[1.     0.1001 2.5   ]\n<NDArray 3 bfloat16 @cpu(0)>"
    assert str(nd.ones(2, dtype="bfloat16")).startswith("\n[1. 1.]\n")


def test_notebooks_get_tables_of_arrays_and_blocks() -> None:
    text = nd.ones((2, 3))._repr_html_()
    assert "<td>NDArray</td><td>(2, 3)</td><td>float32</td><td>cpu(0)</td>" in text
    assert "&lt;NDArray 2x3 @cpu(0)&gt;</pre>" in text
    assert "<td>ndarray</td><td>(2,)</td><td>int32</td>" in mx.np.ones(2, "int32")._repr_html_()
    net = gluon.nn.HybridSequential(prefix="net_")
    net.add(gluon.nn.Dense(4, in_units=3), gluon.nn.Dense(2))
    text = net._repr_html_()
    assert "<td>net</td><td>HybridSequential</td><td></td><td></td>" in text
    assert "<td>0</td><td>Dense</td><td>weight (4, 3), bias (4,)</td><td>16</td>" in text
    assert "<td>1</td><td>Dense</td><td>weight (2, 0), bias (2,)</td><td>2 + deferred</td>" in text
    assert "<td>total</td><td></td><td></td><td>18 + deferred</td>" in text
    net.initialize()
    net(nd.ones((1, 3)))
    assert "<td>total</td><td></td><td></td><td>26</td>" in net._repr_html_()
