"""ONNX export of detectors: their boxes in ONNX Runtime equal ours, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.gluon import HybridBlock, nn
from onnx_models import parsed, session
from pairing import pairs

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from mxlite.onnx import (  # noqa: E402
    OnnxError,
    export,
    export_model,
    import_model,
    import_to_gluon,
)


def run(path: str, **inputs: mx.nd.NDArray) -> list[np.ndarray]:
    return list(session(path).run(None, {name: array.asnumpy() for name, array in inputs.items()}))


class Ssd(HybridBlock):  # type: ignore[misc]
    """A detector as gluon-cv writes it: fixed anchors, a decoder for each class, box_nms."""

    def __init__(self, classes: int, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.classes, self.kinds, steps = classes, 2, size // 4
        with self.name_scope():
            self.body = nn.HybridSequential()
            for channels in (8, 12):
                self.body.add(nn.Conv2D(channels, 3, 2, 1), nn.BatchNorm(), nn.LeakyReLU(0.1))
            self.class_head = nn.Conv2D(self.kinds * (classes + 1), 3, padding=1)
            self.box_head = nn.Conv2D(self.kinds * 4, 3, padding=1)
            middle = (np.indices((steps, steps)).transpose(1, 2, 0)[..., ::-1] + 0.5) * 4
            middle = np.repeat(middle[:, :, None], self.kinds, 2)
            sides = np.broadcast_to([[8, 8], [6, 12]], middle.shape)
            anchors = np.concatenate([middle, sides], -1).reshape(1, -1, 4)
            self.anchors = self.params.get_constant("anchors", anchors)

    def hybrid_forward(self, F: Any, x: Any, anchors: Any) -> tuple[Any, Any, Any]:
        features = self.body(x)
        scores = (
            self.class_head(features).transpose((0, 2, 3, 1)).reshape((0, -1, self.classes + 1))
        )
        offsets = self.box_head(features).transpose((0, 2, 3, 1)).reshape((0, -1, 4))
        center_x, center_y, width, height = F.split(anchors, axis=-1, num_outputs=4)
        dx, dy, dw, dh = F.split(offsets, axis=-1, num_outputs=4)
        x = F.broadcast_add(F.broadcast_mul(dx * 0.1, width), center_x)
        y = F.broadcast_add(F.broadcast_mul(dy * 0.1, height), center_y)
        w = F.broadcast_mul(F.exp(dw * 0.2), width) / 2
        h = F.broadcast_mul(F.exp(dh * 0.2), height) / 2
        boxes = F.concat(x - w, y - h, x + w, y + h, dim=-1)
        probabilities = F.softmax(scores, axis=-1).slice_axis(axis=-1, begin=1, end=None)
        rows = []
        for i in range(self.classes):
            score = probabilities.slice_axis(axis=-1, begin=i, end=i + 1)
            good = score > 0.2
            ids = F.where(good, F.ones_like(good) * i, F.ones_like(good) * -1)
            score = F.where(good, score, F.zeros_like(score))
            rows.append(F.concat(ids, score, boxes, dim=-1))
        found = F.contrib.box_nms(
            F.concat(*rows, dim=1), overlap_thresh=0.45, valid_thresh=0.01, topk=30, id_index=0,
            score_index=1, coord_start=2, force_suppress=False,
        ).slice_axis(axis=1, begin=0, end=40)  # fmt: skip
        return (
            found.slice_axis(axis=2, begin=0, end=1),
            found.slice_axis(axis=2, begin=1, end=2),
            found.slice_axis(axis=2, begin=2, end=6),
        )


class Rcnn(HybridBlock):  # type: ignore[misc]
    """Regions from a proposal network, features of each region, and boxes of each class."""

    def __init__(self, pool: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pool = pool
        with self.name_scope():
            self.body = nn.Conv2D(6, 3, 4, 1, activation="relu")
            self.rpn_score = nn.Conv2D(2 * 4, 1)
            self.rpn_box = nn.Conv2D(4 * 4, 1)
            self.top = nn.Dense(16, activation="relu")
            self.score = nn.Dense(3)
            self.box = nn.Dense(4)

    def hybrid_forward(self, F: Any, x: Any, info: Any) -> tuple[Any, Any]:
        features = self.body(x)
        scores = F.softmax(self.rpn_score(features).reshape((0, 2, -1, 0)), axis=1)
        rois = F.contrib.Proposal(
            scores.reshape((0, 8, -1, 0)), self.rpn_box(features) * 0.2, info, feature_stride=4,
            scales=(2, 4), ratios=(0.5, 1), rpn_min_size=4, rpn_pre_nms_top_n=80,
            rpn_post_nms_top_n=12, threshold=0.6,
        )  # fmt: skip
        args = {"pooled_size": (3, 3), "spatial_scale": 0.25}
        pooled = (
            F.ROIPooling(features, rois, **args)
            if self.pool == "ROIPooling"
            else F.contrib.ROIAlign(features, rois, sample_ratio=2, **args)
        )
        top = self.top(pooled)
        ids, corners = F.argmax(self.score(top), axis=1, keepdims=True), rois.slice_axis(1, 1, 5)
        best = F.max(F.softmax(self.score(top)), axis=1, keepdims=True)
        boxes = F.contrib.box_decode(
            self.box(top).expand_dims(0), corners.expand_dims(0), 0.1, 0.1, 0.2, 0.2,
            format="corner",
        )  # fmt: skip
        rows = F.concat(ids.expand_dims(0), best.expand_dims(0), boxes, dim=2)
        return rois, F.contrib.box_nms(rows, overlap_thresh=0.1, id_index=0)


def test_an_ssd_at_any_batch_size(tmp_path: Path) -> None:
    mx.random.seed(1)  # scores that are nearly equal would be sorted by their rounding
    net = Ssd(3, 32)
    net.initialize(mx.init.Normal(0.3))
    x = mx.nd.random.uniform(-1, 1, shape=(2, 3, 32, 32))
    path = export(net, x, path=tmp_path / "ssd.onnx", dynamic_axes={"data": {0: "N"}})
    more = mx.nd.concat(x, -x, x[:1], dim=0)
    expected = [part.asnumpy() for part in net(more)]
    assert (expected[0] >= 0).sum() > 50 and len(set(expected[0].ravel())) == 4
    for found, wanted in pairs(run(path, data=more), expected):
        np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("pool", ["ROIPooling", "ROIAlign"])
def test_a_faster_rcnn(pool: str, tmp_path: Path) -> None:
    mx.random.seed(1)
    net = Rcnn(pool)
    net.initialize(mx.init.Normal(0.2))
    x = mx.nd.random.uniform(-1, 1, shape=(1, 3, 48, 64))
    info = mx.nd.array([[48, 60, 1]])
    path = export(net, x, info, path=tmp_path / "rcnn.onnx")
    rois, rows = net(x, info)
    assert len(np.unique(rois.asnumpy(), axis=0)) > 4
    assert 1 < (rows.asnumpy()[0, :, 0] >= 0).sum() < 12
    flipped = x[:, :, ::-1]
    for found, wanted in pairs(run(path, data0=flipped, data1=info), net(flipped, info)):
        np.testing.assert_allclose(found, wanted.asnumpy(), 1e-3, 1e-3)


def test_a_symbol_with_multibox_operators(tmp_path: Path) -> None:
    mx.random.seed(1)
    data = mx.sym.var("data")
    features = mx.sym.Pooling(
        mx.sym.Convolution(data, num_filter=6, kernel=(3, 3), stride=(2, 2), name="conv"),
        kernel=(3, 3), stride=(2, 2), pool_type="max", pooling_convention="full",
    )  # fmt: skip
    anchors = mx.sym.contrib.MultiBoxPrior(features, sizes=(0.3, 0.5), ratios=(1, 2))
    heads = [
        mx.sym.Convolution(features, num_filter=n, kernel=(1, 1), name=name).transpose((0, 2, 3, 1))
        for n, name in ((9, "cls"), (12, "loc"))
    ]
    scores = mx.sym.transpose(mx.sym.Reshape(heads[0], shape=(0, -1, 3)), axes=(0, 2, 1))
    scores = mx.sym.SoftmaxActivation(scores, mode="channel")
    out = mx.sym.contrib.MultiBoxDetection(
        scores, mx.sym.Flatten(heads[1]), anchors, threshold=0.3, nms_threshold=0.5, nms_topk=30,
        name="detection",
    )  # fmt: skip
    shapes = dict(zip(out.list_arguments(), out.infer_shape(data=(2, 3, 24, 24))[0]))
    values = {
        name: mx.nd.random.normal(0, 0.5, shape=shape)
        for name, shape in shapes.items()
        if name != "data"
    }
    mx.model.save_checkpoint(str(tmp_path / "ssd"), 0, out, values, {})
    files = (str(tmp_path / "ssd-symbol.json"), str(tmp_path / "ssd-0000.params"))
    path = export_model(*files, [(2, 3, 24, 24)], np.float32, str(tmp_path / "ssd.onnx"))
    x = mx.nd.random.uniform(-1, 1, shape=(2, 3, 24, 24))
    expected = out.eval(data=x, **values)[0].asnumpy()
    assert (expected[:, :, 0] >= 0).sum() > 4 and (expected[:, :, 0] == -1).any()
    np.testing.assert_allclose(run(path, data=x)[0], expected, 1e-4, 1e-5)


@pytest.mark.parametrize("in_format", ["corner", "center"])
def test_boxes_with_negative_sides_overlap_nothing(in_format: str, tmp_path: Path) -> None:
    rows = mx.nd.array(np.random.RandomState(0).uniform(-1, 1, (2, 60, 6)))
    rows[:, :, 0] = mx.nd.floor(rows[:, :, 0] * 2)
    symbol = mx.sym.contrib.box_nms(
        mx.sym.var("data"), overlap_thresh=0.1, topk=40, id_index=0, background_id=-2,
        in_format=in_format,
    )  # fmt: skip
    export(symbol, rows, path=tmp_path / "nms.onnx")


@pytest.mark.parametrize(
    ("params", "opset", "message"),
    [
        ({"position_sensitive": True}, 17, "position_sensitive True has no equivalent"),
        ({"aligned": True}, 15, "aligned True has no equivalent before opset 16"),
    ],
)
def test_parameters_without_equivalent(
    params: dict[str, bool], opset: int, message: str, tmp_path: Path
) -> None:
    x, rois = mx.nd.ones((1, 4, 4, 4)), mx.nd.array([[0, 0, 0, 3, 3]])
    symbol = mx.sym.contrib.ROIAlign(
        mx.sym.var("x"), mx.sym.var("rois"), pooled_size=(2, 2), spatial_scale=1, **params
    )
    with pytest.raises(OnnxError, match=message):
        export(symbol, x, rois, path=tmp_path / "no.onnx", opset=opset)


class BoxNms(HybridBlock):  # type: ignore[misc]
    def hybrid_forward(self, F: Any, rows: Any) -> Any:
        return F.contrib.box_nms(rows, overlap_thresh=0.3, valid_thresh=0.3, topk=20)


class MultiBox(HybridBlock):  # type: ignore[misc]
    def hybrid_forward(self, F: Any, scores: Any, offsets: Any, anchors: Any) -> Any:
        return F.contrib.MultiBoxDetection(scores, offsets, anchors, nms_topk=20, nms_threshold=0.4)


class Proposal(HybridBlock):  # type: ignore[misc]
    def hybrid_forward(self, F: Any, scores: Any, offsets: Any, info: Any) -> Any:
        return F.contrib.Proposal(
            scores, offsets, info, feature_stride=4, scales=(2, 4), ratios=(0.5, 1),
            rpn_min_size=4, rpn_pre_nms_top_n=80, rpn_post_nms_top_n=12, threshold=0.6,
        )  # fmt: skip


def corners(*shape: int) -> np.ndarray:
    first = np.random.default_rng(3).uniform(0, 1, (*shape, 2))
    return np.concatenate([first, first + 0.3], -1)


HEADS: dict[str, tuple[type[HybridBlock], list[Any]]] = {
    "box_nms": (
        BoxNms,
        [np.concatenate([np.random.default_rng(1).uniform(size=(2, 40, 2)), corners(2, 40)], -1)],
    ),
    "multi-box": (
        MultiBox,
        [np.random.default_rng(2).dirichlet([1, 1, 1], (2, 40)).transpose(0, 2, 1),
         np.random.default_rng(4).normal(0, 0.3, (2, 160)), corners(1, 40)],
    ),
    "proposal": (
        Proposal,
        [np.random.default_rng(5).uniform(size=(1, 8, 10, 10)),
         np.random.default_rng(6).normal(0, 0.2, (1, 16, 10, 10)), [[40, 40, 1]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_heads_survive_a_round_trip(name: str, tmp_path: Path) -> None:
    head, arrays = HEADS[name][0](), [mx.nd.array(array) for array in HEADS[name][1]]
    expected = head(*arrays)
    block = import_to_gluon(export(head, *arrays, path=tmp_path / "head.onnx", check=False))
    np.testing.assert_allclose(block(*arrays).asnumpy(), expected.asnumpy(), 1e-5, 1e-5)


SELECTION = (
    "c = Gather<axis = 1>(s, columns) r = Gather<axis = 1>(c, first) n = Shape(r) "
    "u = Expand(one, n) mask = ScatterND(zeros, c, u)"
)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("limit", [1, 3, 30])
def test_selected_boxes_are_those_of_onnx(center: int, limit: int, tmp_path: Path) -> None:
    random = np.random.default_rng(limit)
    boxes = corners(1, 20)
    if center:
        boxes[..., 2:] = 0.3
    else:  # any two opposite corners
        boxes[:, ::2] = boxes[:, ::2][..., [2, 3, 0, 1]]
    data = {"boxes": boxes.astype("float32"), "scores": random.uniform(size=(1, 2, 20))}
    data["scores"] = data["scores"].astype("float32")
    head = (
        "g (float[1, 20, 4] boxes, float[1, 2, 20] scores) => (int64[] {out}) {{ "
        f"s = NonMaxSuppression<center_point_box = {center}>(boxes, scores, limit, iou, least) "
    )
    constants = {"limit": np.int64(limit), "iou": np.float32(0.3), "least": np.float32(0.2),
                 "columns": np.array([1, 2]), "first": np.int64(0), "one": np.array([1]),
                 "zeros": np.zeros((2, 20), "int64")}  # fmt: skip
    paths = []
    for out, text in (("mask", SELECTION), ("s", "")):
        model = parsed(head.format(out=out) + text + " }")
        used = {name for node in model.graph.node for name in node.input}
        for name in used & set(constants):
            array = np.asarray(constants[name])
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        paths.append(tmp_path / f"{out}.onnx")
        onnx.save(model, paths[-1])
    (expected,) = session(paths[0]).run(None, data)
    assert 0 < expected.sum() <= 2 * limit
    found = import_to_gluon(paths[0])(*(mx.nd.array(data[n]) for n in ("boxes", "scores")))
    np.testing.assert_array_equal(found.asnumpy(), expected)
    with pytest.raises(OnnxError, match="must have a size that does not depend on values"):
        import_model(paths[1])
    (rows,) = session(paths[1]).run(None, data)
    found = import_to_gluon(paths[1])(*(mx.nd.array(data[n]) for n in ("boxes", "scores")))
    np.testing.assert_array_equal(found.asnumpy(), rows)
