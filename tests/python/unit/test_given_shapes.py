"""Shapes that users give: whole numbers in any form, and errors for everything else."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd

NET = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")


@pytest.mark.parametrize(
    "shape",
    [(2, 3), [2, 3], np.array([2, 3]), np.array([2, 3], ">i4"), (np.int64(2), 3), range(2, 4)],
    ids=repr,
)
def test_whole_numbers_in_any_form(shape: Any) -> None:
    assert NET.infer_shape(data=shape)[1] == [(2, 2)]
    assert NET.simple_bind(mx.cpu(), data=shape).outputs[0].shape == (2, 2)
    module = mx.mod.Module(NET, label_names=None)
    module.bind([("data", shape)])
    assert module.data_shapes[0].shape == (2, 3)
    assert module.output_shapes == [("f_output", (2, 2))]
    assert gluon.Parameter("weight", shape=shape).shape == (2, 3)
    assert nd.ones((6,)).reshape(shape).shape == (2, 3)
    assert nd.ones((6,)).reshape(shape=shape).shape == (2, 3)


@pytest.mark.parametrize(
    "shape", [(2.5, 3), (2, 3.0), (2, "a"), ((2, 3),), (float("nan"), 1), 6.0, object()], ids=repr
)
def test_other_shapes_are_type_errors(shape: Any) -> None:
    for act, words in [
        (lambda: NET.infer_shape(data=shape), "infer_shape: data.* tuple of integers"),
        (lambda: NET.infer_shape_partial(data=shape), "infer_shape: data.* tuple of integers"),
        (lambda: NET.simple_bind(mx.cpu(), data=shape), "data.* tuple of integers"),
        (lambda: mx.mod.Module(NET, label_names=None).bind([("data", shape)]),
         "bind: shape of 'data'.* tuple of integers"),
        (lambda: gluon.Parameter("weight", shape=shape), "shape.* tuple of integers"),
        (lambda: nd.ones((6,)).reshape(shape=shape), "reshape: .*shape must be a"),
    ]:  # fmt: skip
        with pytest.raises(TypeError, match=words):
            act()


@pytest.mark.parametrize("entry", ["data", None, ("data",), 3], ids=repr)
def test_other_descriptions_of_data_are_type_errors(entry: Any) -> None:
    with pytest.raises(TypeError, match="bind: .* a DataDesc or a pair"):
        mx.mod.Module(NET, label_names=None).bind([entry])


def test_descriptions_keep_their_type_and_layout() -> None:
    module = mx.mod.Module(NET, label_names=None)
    module.bind([mx.io.DataDesc("data", [2, 3], "float16", "NC")])
    (desc,) = module.data_shapes
    assert (desc.shape, desc.dtype, desc.layout) == ((2, 3), "float16", "NC")
