"""Values and gradients of random sequences of collectives against a NumPy model of all ranks.

usage: collective_sequences.py SEED COUNT

Every rank draws the same sequences, runs its own part of them, eagerly or hybridized, and computes
in NumPy what all ranks get. Sequences use process sets of some of the ranks.
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any, Callable, NamedTuple

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite.gluon import HybridBlock

SEED, COUNT = int(sys.argv[1]), int(sys.argv[2])
MOST_ELEMENTS = 4096

Arrays = dict[int, np.ndarray]  # by rank


class Step(NamedTuple):
    """One operator of a process set: what it does to the arrays of all ranks, and its adjoint."""

    name: str
    members: list[int]
    forward: Callable[[Arrays], Arrays]
    adjoint: Callable[[Arrays], Arrays]
    call: Callable[..., Any]  # the call of this rank: (F.contrib, x, tokens)


def gather(x: Arrays, members: list[int], axis: int) -> Arrays:
    whole = np.concatenate([x[r] for r in members], axis=axis)
    return {r: whole.copy() for r in members}


def scatter(x: Arrays, members: list[int], axis: int) -> Arrays:
    parts = np.split(sum(x[r] for r in members), len(members), axis=axis)
    return dict(zip(members, parts))


def exchange(x: Arrays, members: list[int], split: int, join: int) -> Arrays:
    parts = {r: np.split(x[r], len(members), axis=split) for r in members}
    return {
        r: np.concatenate([parts[s][i] for s in members], axis=join) for i, r in enumerate(members)
    }


def collective(
    name: str, members: list[int], number: int, forward: Any, adjoint: Any, **options: Any
) -> Step:
    """Return a step that calls one operator."""

    def call(contrib: Any, x: Any, tokens: list) -> Any:
        return getattr(contrib, name)(x, process_set=number, **options)

    return Step(name, members, forward, adjoint, call)


def all_reduce(members: list[int], number: int, op: str) -> Step:
    def forward(x: Arrays) -> Arrays:
        total = sum(x[r] for r in members) / (len(members) if op == "mean" else 1)
        return {r: total.copy() for r in members}

    return collective("all_reduce", members, number, forward, forward, op=op)


def broadcast(members: list[int], number: int, root: int) -> Step:
    def forward(x: Arrays) -> Arrays:
        return {r: x[root].copy() for r in members}

    def adjoint(g: Arrays) -> Arrays:
        total = sum(g[r] for r in members)
        return {r: total if r == root else 0 * total for r in members}

    return collective("broadcast", members, number, forward, adjoint, root=root)


def all_gather(members: list[int], number: int, axis: int) -> Step:
    return collective(
        "all_gather",
        members,
        number,
        lambda x: gather(x, members, axis),
        lambda g: scatter(g, members, axis),
        axis=axis,
    )


def reduce_scatter(members: list[int], number: int, axis: int, op: str) -> Step:
    factor = 1 / len(members) if op == "mean" else 1.0
    return collective(
        "reduce_scatter",
        members,
        number,
        lambda x: {r: a * factor for r, a in scatter(x, members, axis).items()},
        lambda g: {r: a * factor for r, a in gather(g, members, axis).items()},
        axis=axis,
        op=op,
    )


def all_to_all(members: list[int], number: int, split: int, join: int) -> Step:
    return collective(
        "all_to_all",
        members,
        number,
        lambda x: exchange(x, members, split, join),
        lambda g: exchange(g, members, join, split),
        split_axis=split,
        concat_axis=join,
    )


def message(number: int, source: int, destination: int) -> Step:
    """The destination adds the source's array to its own."""

    def call(contrib: Any, x: Any, tokens: list) -> Any:
        if rank == source:
            tokens.append(contrib.send(x, destination=destination, process_set=number))
            return x * 1
        return x + contrib.recv(x * 0, source=source, process_set=number)

    return Step(
        "message",
        [source, destination],
        lambda x: {source: x[source].copy(), destination: x[destination] + x[source]},
        lambda g: {source: g[source] + g[destination], destination: g[destination].copy()},
        call,
    )


def draw_step(random: np.random.RandomState, sets: list[list[int]], shapes: dict) -> Step | None:
    number = int(random.randint(len(sets)))
    members = sets[number]
    if len({shapes[r] for r in members}) > 1:
        return None
    shape, n = shapes[members[0]], len(members)
    axis, other = (int(random.randint(len(shape))) for _ in range(2))
    makers: list[Callable[[], Step]] = [
        lambda: all_reduce(members, number, str(random.choice(["sum", "mean"]))),
        lambda: broadcast(members, number, int(random.choice(members))),
    ]
    if int(np.prod(shape)) * n <= MOST_ELEMENTS:
        makers.append(lambda: all_gather(members, number, axis))
    if shape[axis] % n == 0:
        makers.append(
            lambda: reduce_scatter(members, number, axis, str(random.choice(["sum", "mean"])))
        )
        makers.append(lambda: all_to_all(members, number, axis, other))
    if n > 1:
        pair = [int(r) for r in random.permutation(members)[:2]]
        makers.append(lambda: message(number, *pair))
    return makers[random.randint(len(makers))]()


def draw(random: np.random.RandomState, sets: list[list[int]]) -> tuple[Arrays, list[Step]]:
    dims = tuple(int(random.choice([1, 2, 3, 4, 6, 12])) for _ in range(random.randint(1, 4)))
    x = {r: random.uniform(-1, 1, dims) for r in range(size)}
    steps: list[Step] = []
    values = dict(x)
    while len(steps) < random.randint(2, 9):
        step = draw_step(random, sets, {r: a.shape for r, a in values.items()})
        if step is None:
            if steps and random.rand() < 0.3:
                break
            continue
        steps.append(step)
        values.update(step.forward(values))
    return x, steps


class Program(HybridBlock):
    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps

    def hybrid_forward(self, F, x):
        tokens: list = []
        for step in self.steps:
            if rank in step.members:
                x = step.call(F.contrib, x, tokens)
            x = x * 1.5
        return [x, *tokens]


def run(number: int) -> int:
    random = np.random.RandomState([SEED, number])
    x, steps = draw(random, sets)
    values = dict(x)
    for step in steps:
        values.update(step.forward(values))
        values = {r: a * 1.5 for r, a in values.items()}
    weights = {r: random.uniform(-1, 1, a.shape) for r, a in values.items()}
    grads = dict(weights)
    for step in reversed(steps):
        grads = {r: a * 1.5 for r, a in grads.items()}
        grads.update(step.adjoint(grads))
    # The model's adjoint is that of the model's forward.
    np.testing.assert_allclose(
        sum((weights[r] * values[r]).sum() for r in values),
        sum((grads[r] * x[r]).sum() for r in x),
        rtol=1e-9,
        atol=1e-9,
    )
    dtype = str(random.choice(["float32", "float64"]))
    program = Program(steps)
    if random.rand() < 0.3:
        program.hybridize()
    mine = mx.nd.array(x[rank], dtype=dtype)
    mine.attach_grad()
    with mx.autograd.record():
        y, *tokens = program(mine)
    head = mx.nd.array(weights[rank], dtype=dtype)
    mx.autograd.backward([y, *tokens], [head, *(mx.nd.ones_like(t) for t in tokens)])
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for what, got, wanted in (
        ("value", y.asnumpy(), values[rank]),
        ("gradient", mine.grad.asnumpy(), grads[rank]),
    ):
        assert got.shape == wanted.shape, (number, what, got.shape, wanted.shape)
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        assert np.abs(got - wanted).max(initial=0) <= tolerance * scale, (
            f"sequence {number} of seed {SEED}, {what} on rank {rank}: {[s.name for s in steps]}"
        )
    return len(steps)


# Every group of some ranks besides the set of all.
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("MXLITE_JOB_SIZE", "1"))
groups = [list(g) for k in (1, 2, 3) if k < ranks for g in itertools.combinations(range(ranks), k)]
hvd.init(process_sets=[hvd.ProcessSet(g) for g in groups])
rank, size = hvd.rank(), hvd.size()
sets = [list(range(size)), *groups]
calls = sum(run(number) for number in range(COUNT))
# A rank that is not part of the last calls must not leave the job before the others.
mx.nd.contrib.all_reduce(mx.nd.ones((1,))).wait_to_read()
print(f"{COUNT} sequences of seed {SEED}, {calls} collectives, {size} ranks: done", rank)
