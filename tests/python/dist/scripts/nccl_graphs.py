"""Blocks with collectives that run as recorded CUDA graphs give what separate calls give.

Each step compares a hybridized block with the same block called operator by operator, whose
collectives are calls of their own: outputs and gradients, on new data and changed weights. The
numbers are small integers and quarters, so that every sum is exact.
"""

import ctypes
import os

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd
from mxlite.gluon import HybridBlock

STEPS = 60

hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()
gpu = mx.gpu(rank)
random = np.random.RandomState(3 + rank)


def library_counts():
    """Return the collectives that the fake NCCL has recorded, run in graphs, and run directly."""
    counts = (ctypes.c_int64 * 3)()
    ctypes.CDLL(os.environ["MXLITE_CUDA_LIBRARY"]).mxlite_fake_nccl_counts(counts)
    return np.array(counts)


class Net(HybridBlock):
    """Every collective, along first and later axes, with layers between them."""

    def __init__(self, group=0, **kwargs):
        super().__init__(**kwargs)
        self.group = group
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(4, 4))
            self.bias = self.params.get("bias", shape=(4,))

    def hybrid_forward(self, F, x, weight, bias):
        ranks, c = {"process_set": self.group}, F.contrib
        h = F.FullyConnected(x, weight, bias, num_hidden=4)
        h = F.relu(c.all_reduce(h, **ranks))
        h = c.reduce_scatter(c.all_gather(h, axis=1, **ranks), axis=1, **ranks)
        h = c.all_to_all(h * 0.25, split_axis=0, concat_axis=1, **ranks)
        h = c.all_to_all(h, split_axis=1, concat_axis=0, **ranks)
        h = h + c.broadcast(x, root=self.root, **ranks)
        h = c.reduce_scatter(c.all_gather(h, axis=0, **ranks), axis=0, op="mean", **ranks)
        h = c.sum_gradient(h, **ranks)
        both = F.FullyConnected(h, weight, bias, num_hidden=4), x * h
        return c.all_reduce(both[0], op="mean", **ranks), c.all_reduce(both[1], **ranks)


def integers(*shape):
    return mx.nd.array(random.randint(-2, 3, shape), ctx=gpu)


def results(net, x, heads):
    x.attach_grad()
    with autograd.record():
        outputs = net(x)
    autograd.backward(list(outputs), heads)
    arrays = [*outputs, x.grad, *(p.grad(gpu) for p in net.collect_params().values())]
    return [a.asnumpy() for a in arrays]


def compare(group=0, members=None):
    ranks = len(members) if members else size
    nets = [Net(group), Net(group)]
    nets[0].collect_params().initialize(mx.init.Zero(), ctx=gpu)
    nets[1].collect_params().initialize(mx.init.Zero(), ctx=gpu)
    for net in nets:
        net.root = members[-1] if members else size - 1
    nets[1].hybridize()
    for step in range(STEPS):
        for one, other in zip(nets[0].collect_params().values(), nets[1].collect_params().values()):
            value = integers(*one.shape)
            one.set_data(value)
            other.set_data(value)
        x = integers(2 * ranks, 4)
        heads = [integers(2 * ranks, 4), integers(2 * ranks, 4)]
        wanted = results(nets[0], x.copy(), heads)
        found = results(nets[1], x.copy(), heads)
        for k, (a, b) in enumerate(zip(found, wanted)):
            np.testing.assert_array_equal(a, b, err_msg=f"step {step}, result {k}")
        # A call without gradients runs another executable.
        for a, b in zip(nets[1](x), nets[0](x)):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy(), err_msg=f"step {step}")
    return nets


def stats():
    counts = mx._core.comm_stats()
    return np.array([counts[k] for k in ("graph_calls", "graphs_recorded", "graphs_replayed")])


if __name__ == "__main__":
    nets = compare()
    calls, recorded, replayed = stats()
    in_library = library_counts()
    print("counts", calls, recorded, replayed, in_library)
    if os.environ.get("MXLITE_NCCL_GRAPHS") != "1":
        assert calls == 0 and in_library[0] == 0, (calls, in_library)
    elif "EXPECT_NO_GRAPHS" in os.environ:
        assert calls == 3 * STEPS and replayed == 0, (calls, replayed)
    else:
        # Forward, backward, and forward without gradients.
        assert calls == 3 * STEPS, calls
        assert replayed >= 3 * (STEPS - 10), (recorded, replayed)
        assert in_library[0] >= 3 and in_library[1] >= replayed, in_library
    if size == 4 and os.environ.get("MXLITE_NCCL_GRAPHS") == "1":
        sets = hvd.add_process_set([0, 2]), hvd.add_process_set([1, 3])
        mine = sets[rank % 2]
        before = stats()
        compare(mine.process_set_id, mine.ranks)
        if "EXPECT_NO_GRAPHS" not in os.environ:
            assert (stats() - before)[2] >= 3 * (STEPS - 10), stats() - before
        # Graphs that refer to the communicators of these sets exist.
        for one in sets:
            hvd.remove_process_set(one)
        total = mx.nd.contrib.all_reduce(mx.nd.ones((2,), ctx=gpu))
        assert total.asnumpy().tolist() == [size] * 2
    print("done", rank)
