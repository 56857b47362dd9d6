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


def test_what_libraries_for_1x_look_at() -> None:
    def sym_gen(length: int) -> tuple[Any, Any, Any]:
        data, state = mx.sym.Variable("data"), mx.sym.Variable("state")
        layer = mx.sym.FullyConnected(data + state, num_hidden=3, name="fc")
        return mx.sym.SoftmaxOutput(layer, name="softmax"), ["data"], ["softmax_label"]

    contexts = [mx.cpu(0), mx.cpu(1)]
    module = mx.mod.BucketingModule(
        sym_gen, default_bucket_key=2, context=contexts, fixed_param_names=["fc_bias"],
        state_names=["state"],
    )  # fmt: skip
    assert module._context == contexts
    assert module._fixed_param_names == ["fc_bias"] and module._state_names == ["state"]
    assert module._params_dirty is False
    module.bind([("data", (6, 2))], [("softmax_label", (6,))], inputs_need_grad=True)
    module.init_params(mx.init.One())
    module.init_optimizer()
    group = module._curr_module._exec_group
    assert (group.data_names, group.label_names) == (["data"], ["softmax_label"])
    assert (group.data_layouts, group.label_layouts) == ([0], [0])
    assert group.fixed_param_names == ["fc_bias"] and group.num_outputs == 1
    batch = mx.io.DataBatch(
        [mx.nd.arange(12).reshape((6, 2))], [mx.nd.arange(6)], bucket_key=2,
        provide_data=[("data", (6, 2))], provide_label=[("softmax_label", (6,))],
    )  # fmt: skip
    module.forward(batch)
    module.backward()
    parts = [(slice(0, 3), mx.cpu(0)), (slice(3, 6), mx.cpu(1))]
    assert [(part, array.ctx) for part, array in group.data_arrays[0]] == parts
    assert group.data_arrays[0][1][1].asnumpy().tolist() == [[6, 7], [8, 9], [10, 11]]
    labels = [array.asnumpy().tolist() for _, array in group.label_arrays[0]]
    assert labels == [[0, 1, 2], [3, 4, 5]]
    assert [array.shape for array in group.state_arrays[0]] == [(3, 2), (3, 2)]
    assert [array.shape for array in group.input_grad_arrays[0]] == [(3, 2), (3, 2)]
    weights = [array.asnumpy().tolist() for array in group.param_arrays[0]]
    assert weights == [[[1, 1]] * 3] * 2 and group.grad_arrays[1] == [None, None]
    module.update()
    assert module._params_dirty is True
    module.get_params()
    assert module._params_dirty is False
    module._params_dirty = True
    assert module._curr_module._params_dirty is True
