"""A rank gives up a graph whose collectives use two process sets: both sets get the error."""

import contextlib

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd
from mxlite.gluon import HybridBlock
from rank_checks import fails, in_step

left, right = hvd.ProcessSet([0, 1]), hvd.ProcessSet([1, 2])
hvd.init(process_sets=[left, right])
rank = hvd.rank()
BAD = 1  # the rank in both sets
mine = {0: (left,), 1: (left, right), 2: (right,)}[rank]


def settle():
    """The next calls of all ranks match, in each set and in the job."""
    with contextlib.suppress(mx.MXNetError):
        mx.nd.waitall()
    for _ in range(2):
        for which in mine:
            total = mx.nd.contrib.all_reduce(mx.nd.ones((2,)), process_set=which.process_set_id)
            assert total.asnumpy().tolist() == [2, 2]
        in_step()


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

        def run(net=net, record=record):
            with autograd.record() if record else autograd.pause():
                return net(mx.nd.ones((4,)))

        words = "Reshape" if rank == BAD else "rank 1 cannot take part"
        fails(run, words, kind=Exception, after=settle)

# The same graph without a fault, and then with a wrong size on only one rank of each set.
net = Net(None)
net.hybridize()
for _ in range(2):
    outputs = net(mx.nd.ones((4,)))
    assert all(out.asnumpy().tolist() == [2] * out.shape[0] for out in outputs)
words = "shape (3,)" if rank == BAD else "rank 1 cannot take part"
fails(lambda: net(mx.nd.ones((3 if rank == BAD else 4,))), words, kind=Exception, after=settle)
print("done", rank)
