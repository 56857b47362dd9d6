"""Modules: names and memory that buckets share, batches of other types and shapes."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import mxlite as mx


def test_buckets_give_the_same_names_to_nodes_without_one() -> None:
    def sym_gen(length: int) -> tuple[Any, Any, Any]:
        total = mx.sym.sum(mx.sym.Variable("data"), axis=1)
        layer = mx.sym.FullyConnected(total, num_hidden=3)
        return mx.sym.SoftmaxOutput(layer, name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(sym_gen, default_bucket_key=4)
    assert module.data_names == ["data"]
    module.bind([("data", (2, 4, 5))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())
    names = ["data", "fullyconnected0_weight", "fullyconnected0_bias", "softmax_label"]
    assert module.symbol.list_arguments() == names
    module.switch_bucket(3, [("data", (2, 3, 5))], [("softmax_label", (2,))])
    assert module.symbol.list_arguments() == names
    ours, default = (module._buckets[key]._exec_group for key in (3, 4))
    assert ours.execs[0].arg_dict[names[1]] is default.execs[0].arg_dict[names[1]]
    assert ours.shared_data_arrays is default.shared_data_arrays
    assert set(ours.shared_data_arrays[0]) == {"data", "softmax_label"}
    # The batch of the smaller bucket lies in the memory of the larger one's.
    default.execs[0].arg_dict["data"][:] = 7
    assert (ours.execs[0].arg_dict["data"].asnumpy() == 7).all()
    assert module._buckets[4]._total_exec_bytes > 4 * (2 * 4 * 5 + 2 * (3 * 5 + 3))


def test_a_batch_needs_data_only() -> None:
    Batch = namedtuple("Batch", ["data"])
    module = mx.mod.Module(mx.sym.Variable("data") * 2, label_names=None)
    module.bind([("data", (1, 4))])
    module.init_params()
    for shape in ((1, 4), (3, 2)):
        module.forward(Batch([mx.nd.ones(shape)]))
        assert module.get_outputs()[0].shape == shape
    assert module._total_exec_bytes > 0
