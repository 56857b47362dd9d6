"""A rank gives up a graph whose collectives use two process sets: both sets get the error."""

import contextlib
import time

import mxlite as mx
import mxlite.horovod as hvd
import pytest
from mxlite import autograd
from mxlite.gluon import HybridBlock

left, right = hvd.ProcessSet([0, 1]), hvd.ProcessSet([1, 2])
hvd.init(process_sets=[left, right])
rank = hvd.rank()
BAD = 1  # the rank in both sets
mine = {0: (left,), 1: (left, right), 2: (right,)}[rank]


def in_step():
    """The next calls of all ranks match, in each set and in the job."""
    for step in range(2):
        for which in mine:
            total = mx.nd.contrib.all_reduce(mx.nd.ones((2,)), process_set=which.process_set_id)
            assert total.asnumpy().tolist() == [2, 2]
        assert mx.nd.contrib.all_reduce(mx.nd.full((1,), rank + step)).asscalar() == 3 + 3 * step


class Net(HybridBlock):
    """Collectives of this rank's sets in turn; the reduce_scatters refuse an odd size.

    A trace that fails knows only the sets that it has reached, so all sets come first.
    """

    def __init__(self, culprit):
        super().__init__()
        self.culprit = culprit

    def hybrid_forward(self, F, x):
        outputs = []
        for call in (F.contrib.all_reduce, F.contrib.reduce_scatter, F.contrib.all_reduce):
            for which in mine:
                if call is F.contrib.reduce_scatter and self.culprit is which and rank == BAD:
                    x = F.reshape(x, shape=(7, 7))
                outputs.append(call(x, process_set=which.process_set_id))
        return outputs


for culprit in (left, right):
    for record in (False, True):
        net = Net(culprit)
        net.hybridize()
        begin = time.monotonic()
        with pytest.raises(Exception) as caught:
            with autograd.record() if record else autograd.pause():
                outputs = net(mx.nd.ones((4,)))
            for array in outputs:
                array.wait_to_read()
        expected = "Reshape" if rank == BAD else "rank 1 cannot take part"
        assert expected in str(caught.value), str(caught.value)
        assert time.monotonic() - begin < 20, "waited for the timeout"
        with contextlib.suppress(mx.MXNetError):
            mx.nd.waitall()
        in_step()

# The same graph without a fault, and one that only one rank of each set gives the wrong size.
net = Net(None)
net.hybridize()
for _ in range(2):
    outputs = net(mx.nd.ones((4,)))
    assert all(out.asnumpy().tolist() == [2] * out.shape[0] for out in outputs)
words = "shape \\(3,\\)" if rank == BAD else "rank 1 cannot take part"
with pytest.raises(Exception, match=words):
    for array in net(mx.nd.ones((3 if rank == BAD else 4,))):
        array.wait_to_read()
with contextlib.suppress(mx.MXNetError):
    mx.nd.waitall()
in_step()
print("done", rank)
