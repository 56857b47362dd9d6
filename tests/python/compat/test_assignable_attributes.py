"""Attributes of public classes to which programs of MXNet 1.9.1 may assign."""

from __future__ import annotations

from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd


class Identity(mx.autograd.Function):
    def forward(self, x: Any) -> Any:
        return x

    def backward(self, grad: Any) -> Any:
        return grad


def of_module() -> Any:
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
    return mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))


def iterator() -> Any:
    return mx.io.NDArrayIter(np.ones((4, 2)), np.ones(4), 2)


OPTIMIZER = "clip_gradient idx2name lr lr_mult lr_scheduler multi_precision num_update param_dict"
OPTIMIZER += " rescale_grad sym_info wd wd_mult aggregate_num begin_num_update"
METRIC = "global_num_inst global_sum_metric label_names name num_inst output_names sum_metric"
SCHEDULER = "base_lr warmup_begin_lr warmup_final_lr warmup_mode warmup_steps"

# Attributes to which 1.9.1 lets programs assign the value that they have.
ASSIGNABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "Function": (Identity, "saved_tensors"),
    "Context": (lambda: mx.Context("cpu", 1), "device_id device_typeid"),
    "CSRNDArray": (lambda: nd.ones((2, 2)).tostype("csr"), ""),
    "RowSparseNDArray": (lambda: nd.ones((2, 2)).tostype("row_sparse"), ""),
    "Parameter": (
        lambda: gluon.Parameter("p", shape=(2,)),
        "dtype grad_req init lr_mult name shape wd_mult",
    ),
    "ParameterDict": (lambda: gluon.ParameterDict("q_"), ""),
    "Dense": (lambda: gluon.nn.Dense(2), "act"),
    "Conv2D": (lambda: gluon.nn.Conv2D(2, 3), "act"),
    "DataLoader": (lambda: gluon.data.DataLoader([1, 2], 1), ""),
    "Adam": (mx.optimizer.Adam, OPTIMIZER + " beta1 beta2 epsilon lazy_update"),
    "SGD": (mx.optimizer.SGD, OPTIMIZER + " lazy_update momentum"),
    "Updater": (lambda: mx.optimizer.get_updater(mx.optimizer.SGD()), "optimizer states"),
    "Accuracy": (mx.metric.Accuracy, METRIC + " axis"),
    "F1": (mx.metric.F1, METRIC + " average"),
    "CompositeEvalMetric": (mx.metric.CompositeEvalMetric, "metrics name label_names output_names"),
    "Xavier": (mx.init.Xavier, "factor_type magnitude rnd_type"),
    "FactorScheduler": (
        lambda: mx.lr_scheduler.FactorScheduler(5),
        SCHEDULER + " count factor step stop_factor_lr",
    ),
    "CosineScheduler": (
        lambda: mx.lr_scheduler.CosineScheduler(5),
        SCHEDULER + " base_lr_orig final_lr max_steps max_update",
    ),
    "NDArrayIter": (
        iterator,
        "batch_size cursor data data_list idx label last_batch_handle num_data num_source shuffle",
    ),
    "ResizeIter": (lambda: mx.io.ResizeIter(iterator(), 3), "batch_size cur current_batch size"),
    "DataBatch": (
        lambda: mx.io.DataBatch([nd.ones(2)]),
        "bucket_key data index label pad provide_data provide_label",
    ),
    "DataDesc": (lambda: mx.io.DataDesc("x", (2,)), "dtype layout"),
    "Module": (
        of_module,
        "binded for_training inputs_need_grad logger optimizer_initialized params_initialized",
    ),
    "Monitor": (
        lambda: mx.mon.Monitor(1),
        "activated exes interval monitor_all queue re_prog sort step",
    ),
    "CustomOpProp": (mx.operator.CustomOpProp, "need_top_grad_"),
    "Speedometer": (
        lambda: mx.callback.Speedometer(1),
        "auto_reset batch_size frequent init last_count tic",
    ),
}


@pytest.mark.parametrize("name", ASSIGNABLE)
def test_attributes_can_be_assigned(name: str) -> None:
    make, attributes = ASSIGNABLE[name]
    made = make()
    for attribute in attributes.split():
        setattr(made, attribute, getattr(made, attribute))
    made.an_own_attribute = 5
    assert made.an_own_attribute == 5


def test_assigned_numbers_of_a_context_are_used() -> None:
    context = mx.cpu(0)
    context.device_id = 3
    assert context == mx.cpu(3) != mx.cpu(0)
    context.device_typeid = 2
    assert context == mx.gpu(3) and context.device_type == "gpu"
    assert hash(context) == hash(mx.gpu(3))
    with pytest.raises(mx.MXNetError, match="device_id -1 given"):
        context.device_id = -1
    with pytest.raises(mx.MXNetError, match="device_typeid must be 1 .*got 9"):
        context.device_typeid = 9


def test_a_changed_context_of_an_array_leaves_the_array_where_it_is() -> None:
    array = nd.ones((2,))
    array.ctx.device_id = 1
    assert array.ctx == mx.cpu(0)
    assert nd.ones((2,), ctx=mx.cpu(0)).ctx.device_id == 0
