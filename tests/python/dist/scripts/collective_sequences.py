"""Values and gradients of random sequences of collectives against a NumPy model of all ranks.

usage: collective_sequences.py SEED COUNT

Every rank draws the same sequences, runs its own part of them, eagerly or hybridized, and computes
in NumPy what all ranks get. Sequences use process sets of some of the ranks.
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import Callable

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite.gluon import HybridBlock

SEED, COUNT = int(sys.argv[1]), int(sys.argv[2])
MOST_ELEMENTS = 4096

Arrays = dict[int, np.ndarray]  # by rank


class Step:
    """One operator of a process set: what it does to the arrays of all ranks, and its adjoint."""

    def __init__(self, members: list[int], number: int) -> None:
        self.members, self.number = members, number

    def forward(self, x: Arrays) -> Arrays:
        raise NotImplementedError

    def adjoint(self, g: Arrays) -> Arrays:
        raise NotImplementedError

    def call(self, nd, x, tokens: list):
        raise NotImplementedError


class AllReduce(Step):
    def __init__(self, members: list[int], number: int, op: str) -> None:
        super().__init__(members, number)
        self.op = op

    def forward(self, x: Arrays) -> Arrays:
        total = sum(x[r] for r in self.members)
        if self.op == "mean":
            total = total / len(self.members)
        return {r: total.copy() for r in self.members}

    adjoint = forward

    def call(self, nd, x, tokens):
        return nd.contrib.all_reduce(x, op=self.op, process_set=self.number)


class Broadcast(Step):
    def __init__(self, members: list[int], number: int, root: int) -> None:
        super().__init__(members, number)
        self.root = root

    def forward(self, x: Arrays) -> Arrays:
        return {r: x[self.root].copy() for r in self.members}

    def adjoint(self, g: Arrays) -> Arrays:
        total = sum(g[r] for r in self.members)
        return {r: total if r == self.root else 0 * total for r in self.members}

    def call(self, nd, x, tokens):
        return nd.contrib.broadcast(x, root=self.root, process_set=self.number)


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


class AllGather(Step):
    def __init__(self, members: list[int], number: int, axis: int) -> None:
        super().__init__(members, number)
        self.axis = axis

    def forward(self, x: Arrays) -> Arrays:
        return gather(x, self.members, self.axis)

    def adjoint(self, g: Arrays) -> Arrays:
        return scatter(g, self.members, self.axis)

    def call(self, nd, x, tokens):
        return nd.contrib.all_gather(x, axis=self.axis, process_set=self.number)


class ReduceScatter(Step):
    def __init__(self, members: list[int], number: int, axis: int, op: str) -> None:
        super().__init__(members, number)
        self.axis, self.op = axis, op
        self.factor = 1 / len(members) if op == "mean" else 1.0

    def forward(self, x: Arrays) -> Arrays:
        return {r: a * self.factor for r, a in scatter(x, self.members, self.axis).items()}

    def adjoint(self, g: Arrays) -> Arrays:
        return {r: a * self.factor for r, a in gather(g, self.members, self.axis).items()}

    def call(self, nd, x, tokens):
        return nd.contrib.reduce_scatter(x, axis=self.axis, op=self.op, process_set=self.number)


class AllToAll(Step):
    def __init__(self, members: list[int], number: int, split: int, join: int) -> None:
        super().__init__(members, number)
        self.split, self.join = split, join

    def forward(self, x: Arrays) -> Arrays:
        return exchange(x, self.members, self.split, self.join)

    def adjoint(self, g: Arrays) -> Arrays:
        return exchange(g, self.members, self.join, self.split)

    def call(self, nd, x, tokens):
        return nd.contrib.all_to_all(
            x, split_axis=self.split, concat_axis=self.join, process_set=self.number
        )


class Message(Step):
    """The destination adds the source's array to its own."""

    def __init__(self, members: list[int], number: int, source: int, destination: int) -> None:
        super().__init__([source, destination], number)
        self.source, self.destination = source, destination

    def forward(self, x: Arrays) -> Arrays:
        return {
            self.source: x[self.source].copy(),
            self.destination: x[self.destination] + x[self.source],
        }

    def adjoint(self, g: Arrays) -> Arrays:
        return {
            self.source: g[self.source] + g[self.destination],
            self.destination: g[self.destination].copy(),
        }

    def call(self, nd, x, tokens):
        if rank == self.source:
            tokens.append(nd.contrib.send(x, destination=self.destination, process_set=self.number))
            return x * 1
        return x + nd.contrib.recv(x * 0, source=self.source, process_set=self.number)


def draw_step(random: np.random.RandomState, sets: list[list[int]], shapes: dict) -> Step | None:
    number = int(random.randint(len(sets)))
    members = sets[number]
    if len({shapes[r] for r in members}) > 1:
        return None
    shape, n = shapes[members[0]], len(members)
    axis, other = (int(random.randint(len(shape))) for _ in range(2))
    makers: list[Callable[[], Step]] = [
        lambda: AllReduce(members, number, str(random.choice(["sum", "mean"]))),
        lambda: Broadcast(members, number, int(random.choice(members))),
    ]
    if int(np.prod(shape)) * n <= MOST_ELEMENTS:
        makers.append(lambda: AllGather(members, number, axis))
    if shape[axis] % n == 0:
        makers.append(
            lambda: ReduceScatter(members, number, axis, str(random.choice(["sum", "mean"])))
        )
        makers.append(lambda: AllToAll(members, number, axis, other))
    if n > 1:
        pair = [int(r) for r in random.permutation(members)[:2]]
        makers.append(lambda: Message(members, number, pair[0], pair[1]))
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
                x = step.call(F, x, tokens)
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
            f"sequence {number} of seed {SEED}, {what} on rank {rank}: "
            f"{[type(s).__name__ for s in steps]}"
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
