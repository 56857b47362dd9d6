"""Makes random programs of 3 to 15 operators, as text that runs on arrays and on symbols.

A program has variables, steps such as ``v3 = F.Convolution(v0, v1, kernel=(2,), num_filter=3)``,
and outputs. Each step runs in float64 while the program is made, so that large values are left out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mxlite as mx
import numpy as np
from mxlite.base import MXNetError

Shape = tuple[int, ...]
_MOST_ELEMENTS = 1 << 13
_MOST_VALUE = 50.0
_LEAST_VALUE = 1e-12  # products of many numbers leave the range of float32


@dataclass
class Variable:
    """A leaf of a program; ``kind`` is input, weight, label or state."""

    name: str
    shape: Shape
    kind: str
    request: str  # write, add or null
    values: np.ndarray


@dataclass
class Step:
    """An assignment. The values of exact steps (indices, comparisons) have no rounding errors."""

    names: tuple[str, ...]
    text: str
    exact: bool = False

    def __str__(self) -> str:
        return f"{', '.join(self.names)} = {self.text}"


@dataclass
class Program:
    """Steps over variables, and which outputs get which head gradients."""

    variables: list[Variable] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    heads: dict[int, np.ndarray | None] = field(default_factory=dict)  # by output; None: ones

    def __str__(self) -> str:
        lines = [
            f"{v.name} = {v.kind} of shape {v.shape}, grad_req={v.request!r}"
            for v in self.variables
        ]
        heads = {i: "ones" if h is None else h.ravel()[:3].tolist() for i, h in self.heads.items()}
        ends = [f"return {', '.join(self.outputs)}", f"head gradients {heads}"]
        return "\n".join([*lines, *map(str, self.steps), *ends])


class Builder:
    """A program that grows; ``pick`` and its relatives name values for the next step."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.program = Program()
        self.values: dict[str, Any] = {}  # arrays of float64 by name
        self.states: dict[str, Any] = {}  # values that only operators with states use
        self.sources: dict[
            str, bool
        ] = {}  # whether a gradient can flow from the value to a variable
        self.wide = self.r.random() < 0.25  # has arrays that are large enough for fused kernels

    # -- variables -------------------------------------------------------------------------------

    def variable(self, shape: Shape, kind: str, values: np.ndarray | None = None) -> str:
        """Add a variable; its values are those of a float32 array."""
        name = f"v{len(self.values) + len(self.states)}"
        if values is None:
            values = self.numbers.normal(size=shape) * 0.8
        request = self.r.choice(["write", "write", "write", "add", "null"])
        if kind in ("label", "state"):
            request = "null"
        values = values.astype(np.float32)
        self.program.variables.append(Variable(name, shape, kind, request, values))
        known = self.states if kind == "state" else self.values
        known[name] = mx.nd.array(values, dtype="float64")
        self.sources[name] = request != "null"
        return name

    def shape_of_input(self) -> Shape:
        sizes = [1, 2, 3, 4, 5]
        rank = self.r.choice([1, 2, 2, 3, 3, 4, 4, 4])
        shape = [self.r.choice(sizes) for _ in range(rank)]
        if self.wide:
            shape = [2 + d for d in shape]
            shape[min(1, rank - 1)] = self.r.choice([8, 16, 16, 32])
            if rank > 2:
                shape[-1] = self.r.choice([8, 12])
        return tuple(shape)

    def weight(self, *shape: int) -> str:
        """Return a weight of that shape, often one that is used already."""
        known = [
            v.name
            for v in self.program.variables
            if v.shape == shape and v.kind in ("weight", "input")
        ]
        if known and self.r.random() < 0.5:
            return self.r.choice(known)
        return self.variable(shape, "weight")

    def label(self, classes: int, *shape: int) -> str:
        return self.variable(shape, "label", self.numbers.integers(0, classes, shape))

    def state(self, *shape: int, high: float = 1.5) -> str:
        return self.variable(shape, "state", self.numbers.uniform(0.3, high, shape))

    # -- values ----------------------------------------------------------------------------------

    def shape(self, name: str) -> Shape:
        return tuple(self.values[name].shape)

    def pick(self) -> str:
        """Return a value, often the last one, so that chains can reuse memory in place."""
        names = list(self.values)
        return names[-1] if self.r.random() < 0.5 else self.r.choice(names)

    def like(self, x: str) -> str:
        """Return a value of the same shape."""
        same = [name for name in self.values if self.shape(name) == self.shape(x)]
        others = [name for name in same if name != x]
        if others and self.r.random() < 0.7:
            return self.r.choice(others)
        return self.variable(self.shape(x), "input") if self.r.random() < 0.6 else x

    def partner(self, x: str) -> str:
        """Return a value that can be broadcast to the shape of ``x``."""
        shape = self.shape(x)
        fits = [
            name
            for name in self.values
            if len(self.shape(name)) == len(shape)
            and all(d in (1, e) for d, e in zip(self.shape(name), shape))
        ]
        if fits and self.r.random() < 0.6:
            return self.r.choice(fits)
        return self.variable(tuple(d if self.r.random() < 0.5 else 1 for d in shape), "input")

    def axis(self, x: str) -> int:
        rank = len(self.shape(x))
        return self.r.randrange(-rank, rank)

    def axes(self, x: str) -> str:
        rank = len(self.shape(x))
        chosen = self.r.sample(range(rank), self.r.randint(1, rank))
        return str(tuple(sorted(chosen))) if len(chosen) < rank or rank > 1 else "None"

    def bool(self) -> bool:
        return self.r.random() < 0.5

    # -- steps -----------------------------------------------------------------------------------

    def add(self, text: str, exact: bool) -> bool:
        """Append a step unless its values are refused, too many or too large."""
        try:
            result = eval(text, {"F": mx.nd, "DT": "float64", **self.values, **self.states})
            results = result if isinstance(result, (list, tuple)) else [result]
            arrays = [array.asnumpy() for array in results]
        except MXNetError:
            return False
        for array in arrays:
            if not 0 < array.size <= _MOST_ELEMENTS or array.dtype != np.float64:
                return False
            size = np.abs(array)
            if not np.all((size < _MOST_VALUE) & ((size > _LEAST_VALUE) | (size == 0))):
                return False
        first = len(self.values) + len(self.states)
        names = tuple(f"v{first + i}" for i in range(len(results)))
        used = _NAMES.findall(text)
        for name, array in zip(names, results):
            self.values[name] = array
            self.sources[name] = any(self.sources[u] for u in used)
        self.program.steps.append(Step(names, text, exact))
        return True


_NAMES = re.compile(r"\bv\d+\b")
Make = Callable[[Builder, str, Shape], str]


def _unary(*templates: str) -> Make:
    return lambda b, x, s: b.r.choice(templates).format(x=x)


def _binary(*templates: str) -> Make:
    return lambda b, x, s: b.r.choice(templates).format(x=x, y=b.like(x))


def _broadcast(*templates: str) -> Make:
    def make(b: Builder, x: str, s: Shape) -> str:
        y = b.partner(x)
        x, y = (x, y) if b.bool() else (y, x)
        return b.r.choice(templates).format(x=x, y=y)

    return make


def _reduce(b: Builder, x: str, s: Shape) -> str:
    name = b.r.choice(["sum", "mean", "max", "min", "prod", "norm", "sum", "mean"])
    axis = b.axis(x) if name == "norm" else b.axes(x)
    return f"F.{name}({x}, axis={axis}, keepdims={b.bool()})"


def _convolution(b: Builder, x: str, s: Shape) -> str:
    channels, rank = s[1], len(s) - 2
    kernel = tuple(b.r.choice([1, 1, 2, 3]) for _ in range(rank))
    if b.wide and b.bool():
        kernel = (b.r.choice([1, 3, 5]),) * rank
    group = b.r.choice([1, 1, channels, next(g for g in (2, 3, 1) if channels % g == 0)])
    filters = group * b.r.choice([1, 1, 2, 3, 16 if b.wide else 2])
    stride = tuple(b.r.choice([1, 1, 2]) for _ in range(rank))
    pad = tuple(b.r.choice([0, 0, 1]) for _ in range(rank))
    rest = f"kernel={kernel}, num_filter={filters}, stride={stride}, pad={pad}, num_group={group}"
    if b.r.random() < 0.3:
        weight = b.weight(channels, filters // group, *kernel)
        name = "Deconvolution"
    else:
        weight = b.weight(filters, channels // group, *kernel)
        name = "Convolution"
        rest += f", dilate={tuple(b.r.choice([1, 1, 2]) for _ in range(rank))}"
    if b.bool():
        return f"F.{name}({x}, {weight}, no_bias=True, {rest})"
    return f"F.{name}({x}, {weight}, {b.weight(filters)}, no_bias=False, {rest})"


def _fully_connected(b: Builder, x: str, s: Shape) -> str:
    flatten = b.bool()
    hidden = b.r.choice([1, 2, 3, 16 if b.wide else 4])
    columns = int(np.prod(s[1:])) if flatten else s[-1]
    weight, rest = b.weight(hidden, columns), f"num_hidden={hidden}, flatten={flatten}"
    if b.bool():
        return f"F.FullyConnected({x}, {weight}, no_bias=True, {rest})"
    return f"F.FullyConnected({x}, {weight}, {b.weight(hidden)}, {rest})"


def _pooling(b: Builder, x: str, s: Shape) -> str:
    rank, kind = len(s) - 2, b.r.choice(["max", "avg", "sum"])
    if b.r.random() < 0.3:
        return f"F.Pooling({x}, pool_type={kind!r}, global_pool=True, kernel={(1,) * rank})"
    kernel = tuple(b.r.choice([1, 2, 3]) for _ in range(rank))
    stride = tuple(b.r.choice([1, 2]) for _ in range(rank))
    pad = tuple(min(k - 1, b.r.choice([0, 1])) for k in kernel)
    return (f"F.Pooling({x}, pool_type={kind!r}, kernel={kernel}, stride={stride}, pad={pad}, "
            f"count_include_pad={b.bool()})")  # fmt: skip


def _norm(b: Builder, x: str, s: Shape) -> str:
    kind = b.r.choice(["BatchNorm", "BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "L2"])
    size = int(np.prod(s))
    counts = {"BatchNorm": size // s[1], "LayerNorm": s[-1], "GroupNorm": size // s[0]}
    # The gradient of one normalized number is 0 by cancellation that float64 does not show.
    if counts.get(kind, size // (s[0] * s[1])) < 2:
        kind = "L2"
    if kind == "BatchNorm":
        states = f"{b.state(s[1])}, {b.state(s[1])}"
        text = (f"F.BatchNorm({x}, {b.weight(s[1])}, {b.weight(s[1])}, {states}, eps=0.01, "
                f"fix_gamma={b.bool()}, use_global_stats={b.r.random() < 0.3})")  # fmt: skip
        return b.r.choice([text, text, f"F.relu({text})", f"F.relu({text} + {b.like(x)})"])
    if kind == "L2":
        return f"F.L2Normalization({x}, eps=0.01, mode={b.r.choice(['instance', 'channel'])!r})"
    size = s[-1] if kind == "LayerNorm" else s[1]
    more = ", num_groups=1" if kind == "GroupNorm" else ""
    size = 1 if kind == "GroupNorm" else size
    return f"F.{kind}({x}, {b.weight(size)}, {b.weight(size)}, eps=0.01{more})"


def _softmax(b: Builder, x: str, s: Shape) -> str:
    name = b.r.choice(["softmax", "log_softmax", "softmin"])
    return f"F.{name}({x}, axis={b.axis(x)}, temperature={b.r.choice([None, 2.0])})"


def _topk(b: Builder, x: str, s: Shape) -> str:
    axis = b.axis(x)
    kind = b.r.choice(["value", "both"])
    return f"F.topk({x}, axis={axis}, k={b.r.randint(1, s[axis])}, ret_typ={kind!r}, dtype=DT)"


def _indices(b: Builder, x: str, s: Shape) -> str:
    axis = b.axis(x)
    return b.r.choice([
        f"F.argmax({x}, axis={axis})", f"F.argmin({x}, axis={axis}, keepdims=True)",
        f"F.topk({x}, axis={axis}, k=1, ret_typ='mask', dtype=DT)",
        f"F.topk({x}, axis={axis}, k=1, ret_typ='indices', dtype=DT)",
        f"F.argsort({x}, axis={axis}, dtype=DT)",
    ])  # fmt: skip


def _take(b: Builder, x: str, s: Shape) -> str:
    count = b.r.randint(1, 3)
    name = b.r.choice(["take", "Embedding", "pick", "one_hot", "gather_nd"])
    if name == "take":
        axis = b.r.randrange(len(s))
        return f"F.take({x}, {b.label(s[axis], count)}, axis={axis})"
    if name == "Embedding" and len(s) == 2:
        label = b.label(s[0], count, 2)
        return f"F.Embedding({label}, {x}, input_dim={s[0]}, output_dim={s[1]})"
    if name == "one_hot":
        return f"{x} * F.one_hot({b.label(s[-1], *s[:-1])}, depth={s[-1]}, dtype=DT)"
    if name == "gather_nd":
        return f"F.gather_nd({x}, {b.label(s[0], 1, count)})"
    return f"F.pick({x}, {b.label(s[-1], *s[:-1])}, axis=-1, keepdims={b.bool()})"


def _reshape(b: Builder, x: str, s: Shape) -> str:
    order = list(range(len(s)))
    b.r.shuffle(order)
    a, c = b.axis(x), b.axis(x)
    return b.r.choice([
        f"F.reshape({x}, shape={s})", f"F.reshape({x}, shape=(-1,))", f"F.Flatten({x})",
        f"F.reshape({x}, shape=(0, -1))", f"F.transpose({x}, axes={tuple(order)})",
        f"F.swapaxes({x}, dim1={a}, dim2={c})", f"F.expand_dims({x}, axis={a})",
        f"F.reverse({x}, axis={a})", f"F.reshape({x}, shape={(1, *s)})", f"F.transpose({x})",
    ])  # fmt: skip


def _slice(b: Builder, x: str, s: Shape) -> str:
    axis = b.r.randrange(len(s))
    begin = b.r.randrange(s[axis])
    end = b.r.randint(begin + 1, s[axis])
    parts = b.r.choice([d for d in range(1, s[axis] + 1) if s[axis] % d == 0])
    begins, ends = (begin,) + (0,) * (len(s) - 1), (None,) * len(s)
    return b.r.choice([
        f"F.slice_axis({x}, axis={axis}, begin={begin}, end={end})",
        f"F.slice({x}, begin={begins if axis == 0 else (0,) * len(s)}, end={ends})",
        f"F.split({x}, num_outputs={parts}, axis={axis}, squeeze_axis=False)",
        f"F.split({x}, num_outputs={parts}, axis={axis})",
        f"F.slice_like({x}, {b.pick()}, axes=(0,))",
    ])  # fmt: skip


def _join(b: Builder, x: str, s: Shape) -> str:
    axis, others = b.axis(x), [b.like(x) for _ in range(b.r.randint(1, 2))]
    values = ", ".join([x, *others])
    return b.r.choice([f"F.concat({values}, dim={axis})", f"F.stack({values}, axis={axis})",
                       f"F.add_n({values})", f"F.ElementWiseSum({values})"])  # fmt: skip


def _spread(b: Builder, x: str, s: Shape) -> str:
    wide = tuple(b.r.choice([2, 3]) if d == 1 else d for d in s)
    axis = b.axis(x)
    return b.r.choice([
        f"F.broadcast_to({x}, shape={wide})", f"F.broadcast_like({x}, {b.like(x)})",
        f"F.tile({x}, reps={tuple(b.r.choice([1, 2]) for _ in s)})",
        f"F.repeat({x}, repeats=2, axis={axis})",
    ])  # fmt: skip


def _image(b: Builder, x: str, s: Shape) -> str:
    mode = b.r.choice(["constant", "edge"])
    return b.r.choice([
        f"F.pad({x}, mode={mode!r}, pad_width=(0, 0, 0, 0, 1, 0, 0, 1), constant_value=0.5)",
        f"F.UpSampling({x}, scale=2, sample_type='nearest')",
        f"F.LRN({x}, nsize=3)", f"F.SoftmaxActivation({x}, mode='channel')",
    ])  # fmt: skip


def _product(b: Builder, x: str, s: Shape) -> str:
    if len(s) == 2:
        a, c = b.bool(), b.r.choice([1, 2, 3])
        y = b.weight(s[0] if a else s[1], c)
        return f"F.dot({x}, {y}, transpose_a={a})"
    y = b.like(x)
    return b.r.choice([f"F.batch_dot({x}, {y}, transpose_b=True)",
                       f"F.linalg_gemm2({x}, {y}, transpose_a=True, alpha=0.5)"])  # fmt: skip


def _loss(b: Builder, x: str, s: Shape) -> str:
    name = b.r.choice(["Linear", "Logistic", "MAE", "Softmax", "SVM", "MakeLoss", "Sparse"])
    if name in ("Softmax", "SVM") and len(s) == 2:
        label = b.label(s[1], s[0])
        scale = f", grad_scale={b.r.choice([0.5, 1.0])}" if name == "Softmax" else ""
        return f"F.{name}Output({x}, {label}{scale})"
    if name == "Softmax" and len(s) > 2:
        label = b.label(s[1], s[0], *s[2:])
        return f"F.SoftmaxOutput({x}, {label}, multi_output=True, out_grad={b.bool()})"
    if name in ("Linear", "Logistic", "MAE"):
        return f"F.{name}RegressionOutput({x}, {b.variable(s, 'label')}, grad_scale=0.5)"
    if name == "Sparse":
        average = b.state(s[1], high=0.6)  # the penalty divides by it, and by 1 less it
        return f"F.IdentityAttachKLSparseReg(F.sigmoid({x}), {average}, penalty=0.1)"
    return f"F.make_loss({x})" if b.bool() else f"F.MakeLoss({x}, grad_scale=0.5)"


def _where(b: Builder, x: str, s: Shape) -> str:
    return f"F.where({b.like(x)} > 0.1, {x}, {b.like(x)})"


_IDENTITY = _unary(
    "F.identity({x})", "F.BlockGrad({x})", "F.make_loss({x})", "F.Dropout({x}, p=0)",
    "F.Cast({x}, dtype=DT)", "F.MakeLoss({x})", "F.BlockGrad({x})", "F.stop_gradient({x})",
)  # fmt: skip
_SMOOTH = _unary(
    "F.tanh({x})", "F.sigmoid({x})", "F.softsign({x})", "F.sin({x})", "F.cos({x})", "F.erf({x})",
    "F.square({x})", "F.exp(-F.abs({x}))", "F.log(F.abs({x}) + 0.5)", "F.sqrt(F.abs({x}) + 0.5)",
    "F.rsqrt(F.square({x}) + 0.5)", "{x} * 0.5", "{x} + 0.3", "1 - {x}", "{x} / 1.5",
    "2 / (F.abs({x}) + 0.5)", "{x} ** 2", "F.Activation({x}, act_type='softrelu')",
    "F.LeakyReLU({x}, act_type='gelu')", "F.LeakyReLU({x}, act_type='elu', slope=0.5)",
    "F.LeakyReLU({x}, act_type='selu')", "F.expm1({x} * 0.5)", "F.log1p(F.square({x}))",
    "F.arctan({x})", "F.reciprocal(F.square({x}) + 1)", "-{x}", "F.gamma(F.abs({x}) + 1)",
)  # fmt: skip
_KINKED = _unary(
    "F.relu({x})", "F.abs({x})", "F.clip({x}, -0.5, 0.7)", "F.smooth_l1({x}, scalar=1.5)",
    "F.LeakyReLU({x}, act_type='leaky', slope=0.25)", "F.Activation({x}, act_type='relu')",
    "F.maximum({x}, 0.2)", "F.hard_sigmoid({x})", "F.sort({x})", "F.relu({x})",
)  # fmt: skip
_STEPS = _unary(
    "F.sign({x})", "F.round({x})", "F.floor({x})", "F.ceil({x})", "{x} > 0.1", "{x} <= 0.2",
    "F.zeros_like({x})", "F.ones_like({x})", "F.logical_not({x})",
)  # fmt: skip
_PAIRS = _binary(
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "F.elemwise_add({x}, {y})", "F.elemwise_mul({x}, {y})",
    "{x} / (F.abs({y}) + 0.5)", "F.maximum({x}, {y})", "F.broadcast_add({x}, {y})",
)  # fmt: skip
_BROADCAST = _broadcast(
    "F.broadcast_add({x}, {y})", "F.broadcast_sub({x}, {y})", "F.broadcast_mul({x}, {y})",
    "F.broadcast_div({x}, F.abs({y}) + 0.5)", "F.broadcast_hypot({x}, {y})",
    "F.broadcast_mod({x}, F.abs({y}) + 0.5)", "F.broadcast_maximum({x}, {y})",
    "F.broadcast_minimum({x}, {y})", "F.broadcast_power(F.abs({x}) + 0.5, {y})",
    "F.broadcast_hypot({x}, F.abs({y}) + 0.5)", "F.broadcast_div({x}, {y})",
)  # fmt: skip
_COMPARED = _broadcast("F.broadcast_greater({x}, {y})", "F.broadcast_lesser_equal({x}, {y})")

# A row has a weight, the minimum and maximum number of axes, whether results are exact, and the
# function that makes the text.
_TABLE: list[tuple[int, int, int, bool, Make]] = [
    (10, 1, 5, False, _SMOOTH), (5, 1, 5, False, _KINKED), (7, 1, 5, False, _IDENTITY),
    (4, 1, 5, True, _STEPS), (8, 1, 5, False, _PAIRS), (9, 1, 5, False, _BROADCAST),
    (2, 1, 5, True, _COMPARED), (6, 1, 5, False, _reduce), (18, 3, 4, False, _convolution),
    (5, 2, 4, False, _fully_connected), (4, 3, 4, False, _pooling), (5, 2, 4, False, _norm),
    (4, 1, 4, False, _softmax), (2, 1, 4, False, _topk), (3, 1, 4, True, _indices),
    (3, 2, 4, False, _take), (6, 1, 5, False, _reshape), (5, 1, 4, False, _slice),
    (5, 1, 4, False, _join), (3, 1, 4, False, _spread), (3, 4, 4, False, _image),
    (4, 2, 3, False, _product), (6, 2, 4, False, _loss), (3, 1, 4, False, _where),
]  # fmt: skip


def make_program(seed: int) -> Program:
    """Return the program of a seed."""
    b = Builder(seed)
    for _ in range(b.r.randint(1, 2)):
        b.variable(b.shape_of_input(), "input")
    if not any(b.sources.values()):
        b.program.variables[0].request = "write"
        b.sources["v0"] = True
    wanted = b.r.randint(3, 15)
    for _ in range(4 * wanted):
        if len(b.program.steps) == wanted:
            break
        x = b.pick()
        rank = len(b.shape(x))
        rows = [row for row in _TABLE if row[1] <= rank <= row[2]]
        if rows:
            _, _, _, exact, make = b.r.choices(rows, [row[0] for row in rows])[0]
            b.add(make(b, x, b.shape(x)), exact)
    _choose_outputs(b)
    return b.program


def _choose_outputs(b: Builder) -> None:
    program = b.program
    made = [name for step in program.steps for name in step.names]
    used = {name for step in program.steps for name in _NAMES.findall(step.text)}
    ends = [name for name in made if name not in used]
    outputs = b.r.sample(ends, min(len(ends), b.r.randint(1, 4)))
    outputs += [b.r.choice(list(b.values)) for _ in range(b.r.choice([0, 0, 1, 2]))]
    if not any(b.sources[name] for name in outputs):
        outputs.append(next(name for name, source in b.sources.items() if source))
    b.r.shuffle(outputs)
    able = [i for i, name in enumerate(outputs) if b.sources[name]]
    chosen = b.r.sample(able, b.r.randint(1, len(able)))
    others_are_zero = b.r.random() < 0.3
    for i in able:
        shape = b.shape(outputs[i])
        if i in chosen:
            ones, head = b.r.random() < 0.2, b.numbers.normal(size=shape).astype(np.float32)
            program.heads[i] = None if ones else head
        elif others_are_zero:
            program.heads[i] = np.zeros(shape, np.float32)
    program.outputs = outputs
    used |= {*outputs, program.variables[0].name}
    program.variables = [v for v in program.variables if v.name in used]
