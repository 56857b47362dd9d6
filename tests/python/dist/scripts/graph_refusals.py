"""If one rank cannot run a graph, the others get an error, and later calls match again."""

import contextlib
import resource
import sys

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd
from mxlite.gluon import HybridBlock, nn
from rank_checks import fails, in_step

hvd.init()
rank, size = hvd.rank(), hvd.size()
BAD = 1  # the rank that cannot run the graph


def settle():
    """Wait for results of a call that is refused, which fail as well; the next calls match."""
    with contextlib.suppress(mx.MXNetError):
        mx.nd.waitall()
    in_step()
    in_step()


def given_up(run, *words):
    """Check that ``run`` raises on the bad rank, and its result on the other, for one reason."""
    expected = words if rank == BAD else ("rank 1 cannot take part", *words)
    fails(run, *expected, kind=Exception, seconds=15, after=settle)


class Net(HybridBlock):
    """Five collectives; the reduce_scatter refuses an odd number of rows."""

    def __init__(self, culprit=None):
        super().__init__()
        self.culprit = culprit

    def hybrid_forward(self, F, x):
        first = F.contrib.all_reduce(x)
        small = F.contrib.all_reduce(x * 2)
        if self.culprit == "python" and rank == BAD:
            raise RuntimeError("forward has a bug")
        if self.culprit == "operator" and rank == BAD:
            first = F.reshape(first, shape=(7, 7))
        part = F.contrib.reduce_scatter(first + small)
        whole = F.contrib.all_gather(part * 1)
        return whole, F.contrib.all_reduce(x + 1), F.contrib.all_reduce(small)


ODD = "the size of axis 0 must be a multiple of the 2 ranks, got data of shape (3,)"
odd_on_one_rank = mx.nd.ones((3 if rank == BAD else 4,))
for record in (False, True):
    net = Net()
    net.hybridize()
    for _ in range(2):  # the good rank compiles once, the bad one fails each time

        def run(net=net, record=record):
            with autograd.record() if record else autograd.pause():
                return net(odd_on_one_rank)

        given_up(run, ODD)
    assert net(mx.nd.ones((4,)))[1].asnumpy().tolist() == [4] * 4  # the same block works
    for culprit, words in (("python", "forward has a bug"), ("operator", "Reshape")):
        net = Net(culprit)
        net.hybridize()
        given_up(lambda net=net: net(mx.nd.ones((4,))), words)

# A rank whose first call is given up does not know how many follow; it may fail once more.
net = Net()
net.hybridize()
for _ in range(2):
    if rank == BAD:
        fails(lambda: net(odd_on_one_rank), kind=ValueError)
    else:
        fails(lambda: net(odd_on_one_rank), "rank 1 cannot take part")
settle()


class Chain(HybridBlock):
    """One task runs all calls of a compiled graph."""

    def hybrid_forward(self, F, x):
        part = F.contrib.reduce_scatter(F.contrib.all_reduce(x)) * 2
        return F.contrib.all_reduce(F.contrib.all_gather(part))


net = Chain()
net.hybridize()
for _ in range(3):
    assert net(mx.nd.ones((4,))).asnumpy().tolist() == [16] * 4
given_up(lambda: [net(odd_on_one_rank)], ODD)
assert net(mx.nd.ones((4,))).asnumpy().tolist() == [16] * 4


class Dynamic(HybridBlock):
    """Runs operator by operator, because a shape depends on values: nothing is given up."""

    def hybrid_forward(self, F, x):
        total = F.contrib.all_reduce(x)
        return F.contrib.all_reduce(F.contrib.boolean_mask(total, total > 2))


net = Dynamic()
net.hybridize()
if rank == BAD:
    net(mx.nd.array([3.0, 1.0]))  # this rank finds the dynamic shape before the other rank
else:
    mx.nd.contrib.all_reduce(mx.nd.array([3.0, 1.0]))
    mx.nd.contrib.all_reduce(mx.nd.ones((1,)))
in_step()
for _ in range(2):
    assert net(mx.nd.array([3.0, 1.0])).asnumpy().tolist() == [12]
in_step()


class Deferred(HybridBlock):
    """Finds the shape of its weight by tracing."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, flatten=False)

    def hybrid_forward(self, F, x):
        return self.dense(F.contrib.reduce_scatter(F.contrib.all_reduce(x), axis=1))


net = Deferred()
net.initialize()
net.hybridize()
wide = mx.nd.ones((2, 3 if rank == BAD else 4))
given_up(lambda: [net(wide)], "got data of shape (2, 3)")


# Symbols: refused when they are bound, and in forward.
def symbol():
    x = mx.sym.var("x")
    total = mx.sym.contrib.all_reduce(x)
    part = mx.sym.contrib.reduce_scatter(total)
    return mx.sym.Group([mx.sym.contrib.all_gather(part), mx.sym.contrib.all_reduce(part)])


def bound(make):
    def run():
        executor = make(symbol())
        return executor.forward(is_train=False)

    return run


shape = odd_on_one_rank.shape
given_up(bound(lambda s: s.simple_bind(mx.cpu(), x=shape)), "shape (3,)")
given_up(bound(lambda s: s.bind(mx.cpu(), {"x": odd_on_one_rank})), "shape (3,)")

# Lack of memory: eagerly, in a block with one signature, and while its parts run.
if sys.platform == "linux":

    def limited(run):
        """The bad rank has memory for nothing large."""

        def limiting():
            before = resource.getrlimit(resource.RLIMIT_AS)
            if rank == BAD:
                with open("/proc/self/statm") as file:
                    used = int(file.read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), before[1]))
            try:
                return run()
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)

        return limiting

    large = mx.nd.ones((1, 40 << 20))  # 160 MB
    large.wait_to_read()
    given_up(limited(lambda: [mx.nd.contrib.all_gather(large)]), "memory")

    class Large(HybridBlock):
        def hybrid_forward(self, F, x, y):
            total = F.contrib.all_reduce(x)
            return total, F.contrib.all_gather(y), F.contrib.all_reduce(total + 1)

    for record in (False, True):
        net = Large()
        net.hybridize()

        def run(net=net, record=record):
            with autograd.record() if record else autograd.pause():
                return net(mx.nd.ones((2,)), large)

        given_up(limited(run), "memory")
print("done", rank)
