"""Trainings that sum gradients in buckets get the values of one process with the whole batch."""

from __future__ import annotations

import sys
from typing import Any

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.comm.buckets import GradientBuckets
from mxlite.comm.groups import group_of
from mxlite.gluon import nn
from rank_checks import agree, equal, rounded

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, STEPS, WIDTH = 12, 6, 9
RATE = 0.02


def batches() -> Any:
    return np.random.RandomState(3).uniform(-1, 1, (STEPS, BATCH, WIDTH)).astype("float32")


class Net(gluon.HybridBlock):
    """Layers of which one is used twice, and one that some steps leave out."""

    def __init__(self) -> None:
        super().__init__(prefix="net_")
        with self.name_scope():
            self.first = nn.Dense(WIDTH, activation="tanh", in_units=WIDTH)
            self.shared = nn.Dense(WIDTH, activation="tanh", in_units=WIDTH)
            self.again = nn.Dense(WIDTH, in_units=WIDTH, params=self.shared.params)
            self.last = nn.Dense(3, in_units=WIDTH)
            self.rare = nn.Dense(3, in_units=WIDTH)
        self.uses_rare = False

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        y = self.again(self.shared(self.first(x)))
        return self.last(y) + (self.rare(y) if self.uses_rare else 0)


def trained(make_trainer: Any, share: slice, hybrid: bool, way: str) -> list[Any]:
    """Train and return the weights; `way` selects a variation of the steps."""
    mx.random.seed(5)
    net = Net()
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
    if way == "add":
        net.collect_params().setattr("grad_req", "add")
    trainer = make_trainer(net.collect_params())
    for number, inputs in enumerate(batches()):
        if way == "rare" and hybrid:
            net.hybridize()  # another graph
        net.uses_rare = way != "rare" or number % 2 == 1
        data = mx.nd.array(inputs[share])
        # Several passes before one step: with 'write' the last one counts, with 'add' all do.
        for part in (data * 0.5, data) if way in ("add", "twice") else (data,):
            with autograd.record():
                loss = (net(part) ** 2).sum()
            loss.backward()
        trainer.step(BATCH, ignore_stale_grad=way == "rare")
        if way == "add":
            net.collect_params().zero_grad()
    return [p.data().asnumpy() for p in net.collect_params().values()]


def options() -> dict[str, Any]:
    return {"learning_rate": RATE, "momentum": 0.9}


def alone(params: Any) -> Any:
    return gluon.Trainer(params, "sgd", options(), kvstore=None)


def by_store(name: str, **arguments: Any) -> Any:
    return lambda params: gluon.Trainer(
        params, "sgd", options(), kvstore=mx.kv.create(name), **arguments
    )


def by_horovod(**arguments: Any) -> Any:
    class Mean(hvd.DistributedTrainer):
        """Takes the batch size of all ranks, like the other trainers."""

        def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
            super().step(batch_size / SIZE, ignore_stale_grad)

    return lambda params: Mean(params, "sgd", options(), **arguments)


WAYS = {
    "dist_sync": by_store("dist_sync"),
    "dist_sync on workers": by_store("dist_sync", update_on_kvstore=False),
    "horovod store": by_store("horovod"),
    "horovod": by_horovod(),
    "horovod in groups": by_horovod(num_groups=3),
    "horovod scaled": by_horovod(gradient_predivide_factor=2.0),
    "dist_sync zero": by_store("dist_sync", zero=1, update_on_kvstore=False),
}


def check_equal_on_all_ranks(values: list[Any], what: str) -> None:
    for other in hvd.allgather_object(values):
        agree(values, other, 0, 0, what)


def check_values(way: str) -> None:
    """Compare with one process that has the batches of all."""
    share = slice(RANK, None, SIZE)
    for hybrid in (False, True):
        expected = trained(alone, slice(None), hybrid, way)
        for name, make in WAYS.items():
            found = trained(make, share, hybrid, way)
            what = f"{name}, {way}, hybrid {hybrid}"
            agree(found, expected, 3e-5, 3e-6, what)
            check_equal_on_all_ranks(found, what)


def check_halves() -> None:
    """Gradients sent as halves differ by their rounding, and are the same on all ranks."""
    share = slice(RANK, None, SIZE)
    plain = trained(WAYS["horovod"], share, True, "plain")
    for kind, tolerance in (("fp16", 3e-3), ("bf16", 3e-2)):
        makers = {
            "trainer": by_horovod(compression=getattr(hvd.Compression, kind)),
            "store": by_store("dist_sync", compression_params={"type": kind}),
            "workers": by_store(
                "dist_sync", compression_params={"type": kind}, update_on_kvstore=False
            ),
        }
        results = {name: trained(make, share, True, "plain") for name, make in makers.items()}
        for name, found in results.items():
            what = f"{kind}, {name}"
            apart = max(np.abs(a - b).max() for a, b in zip(found, plain))
            assert 0 < apart < tolerance, (what, apart)
            check_equal_on_all_ranks(found, what)
            agree(found, results["trainer"], 1e-6, 1e-7, what)

    class Own:
        """A class of a user."""

        @staticmethod
        def compress(tensor: Any) -> Any:
            return tensor * 4, tensor.dtype

        @staticmethod
        def decompress(tensor: Any, dtype: Any) -> Any:
            return (tensor / 4).astype(dtype)

    equal(trained(by_horovod(compression=Own), share, True, "plain"), plain)


def check_codes() -> None:
    """Sums of codes have the bits of sums of rounded values, in the order of ranks."""
    shapes = [(5, 7), (2000,), (1,), (33, 3)]
    group = group_of("test", None)
    for kind, threshold in (("2bit", 0.3), ("1bit", 0.1)):
        for in_place in (True, False):
            buckets = GradientBuckets("test", in_place=in_place, code=(kind, threshold))
            randoms = [np.random.RandomState(r) for r in range(SIZE)]
            residuals = [[np.zeros(shape, "float32") for shape in shapes] for _ in range(SIZE)]
            for step in range(4):
                values = [
                    [r.normal(scale=0.4, size=shape).astype("float32") for shape in shapes]
                    for r in randoms
                ]
                arrays = [mx.nd.array(value) for value in values[RANK]]
                counts = mx.nd.array([RANK, step], dtype="int32")
                # In some steps a gradient is missing on all ranks.
                chosen = [i for i in range(len(shapes)) if (i + step) % 3]
                names = [*map(str, chosen), "counts"]
                given = [*([arrays[i]] for i in chosen), [counts]]
                *sums, total = buckets.sum(names, given, group)
                np.testing.assert_array_equal(
                    total.asnumpy(), [SIZE * (SIZE - 1) // 2, SIZE * step]
                )
                for i, found in zip(chosen, sums):
                    expected = np.zeros(shapes[i], "float32")
                    for r in range(SIZE):
                        expected += rounded(values[r][i], residuals[r][i], kind, threshold)
                    np.testing.assert_array_equal(found.asnumpy(), expected)
                    own = expected if in_place else values[RANK][i]
                    np.testing.assert_array_equal(arrays[i].asnumpy(), own)
    share = slice(RANK, None, SIZE)
    for on_store in (True, False):
        make = by_store(
            "dist_sync",
            compression_params={"type": "2bit", "threshold": 0.05},
            update_on_kvstore=on_store,
        )
        found = trained(make, share, True, "plain")
        check_equal_on_all_ranks(found, f"2bit, on store {on_store}")
        plain = trained(WAYS["dist_sync"], share, True, "plain")
        assert max(np.abs(a - b).max() for a, b in zip(found, plain)) > 0


def check_sizes() -> None:
    """Sizes are tried in turn; the bits are those of one size."""
    from mxlite.comm import bucket_plan, buckets

    made: list[int] = []

    class Counted(buckets._Bucket):
        def __init__(self, names: list[str], *others: Any) -> None:
            made.append(len(names))
            super().__init__(names, *others)

    share = slice(RANK, None, SIZE)
    for name in ("dist_sync", "horovod"):
        plain = trained(WAYS[name], share, True, "plain")
        kept = buckets._Bucket, bucket_plan._SIZES, bucket_plan._TRIAL_STEPS
        buckets._Bucket = Counted  # type: ignore[misc]
        bucket_plan._SIZES = (1 << 20, 400, 100)
        bucket_plan._TRIAL_STEPS, bucket_plan._SKIPPED_STEPS = 1, 0
        try:
            found = trained(WAYS[name], share, True, "plain")
        finally:
            buckets._Bucket, bucket_plan._SIZES, bucket_plan._TRIAL_STEPS = kept
            bucket_plan._SKIPPED_STEPS = 4
        check_equal_on_all_ranks([np.array(made)], name)
        assert made[0] == 8 and made.count(1) >= 4, made
        equal(found, plain)
        made.clear()


def check_several_contexts() -> None:
    """Each process has two contexts, each with its part of the batch."""
    contexts = [mx.cpu(0), mx.cpu(1)]
    for update_on_kvstore in (True, False):
        results = []
        for name in (None, "dist_sync"):
            mx.random.seed(5)
            net = nn.Dense(3, in_units=WIDTH, prefix="net_")
            net.initialize(mx.init.Xavier(), ctx=contexts if name else mx.cpu(0))
            store = mx.kv.create(name) if name else None
            arguments = {"update_on_kvstore": update_on_kvstore} if name else {}
            trainer = gluon.Trainer(
                net.collect_params(), "sgd", options(), kvstore=store, **arguments
            )
            for inputs in batches():
                parts = [inputs]
                if name:
                    parts = [inputs[2 * RANK + k :: 2 * SIZE] for k in range(2)]
                with autograd.record():
                    losses = [
                        (net(mx.nd.array(part, ctx=context)) ** 2).sum()
                        for part, context in zip(parts, contexts)
                    ]
                autograd.backward(losses)
                trainer.step(BATCH)
            results.append([p.data(mx.cpu(0)).asnumpy() for p in net.collect_params().values()])
        agree(results[1], results[0], 3e-5, 3e-6)
        check_equal_on_all_ranks(results[1], "contexts")


def check_sparse() -> None:
    """Row-sparse gradients are sent one by one, dense gradients in buckets."""
    ids = np.random.RandomState(7).randint(0, 20, (STEPS, BATCH))
    results = []
    for name in ("local", "dist_sync"):
        mx.random.seed(5)
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Embedding(20, 4, sparse_grad=True), nn.Dense(3, in_units=4))
        net.initialize(mx.init.Uniform(1.0))
        store = mx.kv.create(name)
        trainer = gluon.Trainer(net.collect_params(), "sgd", options(), kvstore=store)
        share = slice(RANK, None, SIZE) if name == "dist_sync" else slice(None)
        for chosen in ids:
            with autograd.record():
                loss = (net(mx.nd.array(chosen[share])) ** 2).sum()
            loss.backward()
            assert net[0].weight.grad().stype == "row_sparse"
            trainer.step(BATCH)
        results.append([p.data().asnumpy() for p in net.collect_params().values()])
    agree(*results, 3e-5, 3e-6)
    check_equal_on_all_ranks(results[1], "sparse")


CHECKS = {
    "sparse": check_sparse,
    "halves": check_halves,
    "codes": check_codes,
    "sizes": check_sizes,
    "contexts": check_several_contexts,
    **{way: lambda way=way: check_values(way) for way in ("plain", "add", "twice", "rare")},
}


for name in sys.argv[1:]:
    CHECKS[name]()
print("done", flush=True)
