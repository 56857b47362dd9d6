"""Runs one random program in several ways and compares values and gradients.

    python tests/fuzz/operators.py --graphs --calls 20000 --seed 1
    python tests/fuzz/operators.py --graphs --seed 1 --only 4711     # print and repeat one program

A program (graph_programs.py) runs eagerly with the tape, as a hybridized block, recorded and not
recorded, and as a bound symbol, in float32; and eagerly in float64. Every result in float32 is
compared with that in float64.

How much float32 may differ follows from float64, too: the program runs again with an error of a
few units of float32's rounding, at random, in every value that is read and every gradient that
flows back. A result may differ by a multiple of the differences between these runs. So the
tolerance is wide only where float64 shows that a result is ill-conditioned: at kinks (relu near 0,
equal maxima, the steps of round), and where large terms cancel.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import mxlite as mx
import numpy as np
from graph_programs import Program, Variable, make_program
from mxlite import autograd
from mxlite.base import MXNetError

_ROUNDING = 2.0**-24  # relative error of float32
_NOISE = 8 * _ROUNDING
_RUNS = 3  # runs with noise; _MORE_RUNS follow before a difference is reported
_MORE_RUNS = 30
# Allowed error, as a multiple of the difference between the runs with noise: an operator that adds
# up to 8,192 numbers rounds after each of them, while the noise changes each number once.
_FACTOR = 32.0
_FLOOR = 16 * _ROUNDING  # smallest allowed error, relative to the largest element or to 1
_MOST_TRIES = 200  # candidates in the search for a shorter program

# Operators that compute their slope from their rounded result, by a difference that cancels.
_FROM_RESULT = re.compile(
    r"F\.(?:sigmoid|tanh|Activation|LeakyReLU)\(N\((v\d+)\)"
    r"(?:, act_type='(?:softrelu|s?elu)'[^()]*)?\)"
)

Arrays = dict[str, np.ndarray]


@dataclass
class Graph:
    """A program as the fuzzer calls it."""

    program: Program
    op: str = "graph"
    mode: str = "graph"

    def __str__(self) -> str:
        return str(self.program)


def make_call(seed: int, number: int) -> Graph:
    """Return program ``number`` of a seed."""
    return Graph(make_program(seed * 1_000_003 + number))


class _Noise:
    """Gives values, and independently the gradients that flow back, a relative error each."""

    def __init__(self, seed: int) -> None:
        self.numbers = np.random.default_rng(seed)

    def __call__(self, array: Any) -> Any:
        forward, backward = _NOISE * self.numbers.uniform(-1, 1, (2, *array.shape))
        factor = mx.nd.array(1 + backward, dtype="float64")
        rest = mx.nd.array(forward - backward, dtype="float64")
        return array * factor + mx.nd.BlockGrad(array * rest)

    def slope(self, result: Any, operand: Any) -> Any:
        """Give the slope of a result an absolute error: the terms of its difference are near 1."""
        error = mx.nd.array(_NOISE * self.numbers.uniform(-1, 1, operand.shape), dtype="float64")
        return result + error * (operand - mx.nd.BlockGrad(operand))


def _rounded(array: Any) -> Any:
    """Round a value, and the gradient that flows back, to float32: equal ones stay equal."""
    return mx.nd.Cast(mx.nd.Cast(array, dtype="float32"), dtype="float64")


def _evaluate(
    F: Any, program: Program, values: dict[str, Any], dtype: str, noise: Any
) -> list[Any]:
    known = {"F": F, "DT": dtype, "N": noise, **values}
    exact = {v.name for v in program.variables if v.kind in ("label", "state")}

    def read(match: re.Match[str]) -> str:
        return match[0] if match[0] in exact else f"N({match[0]})"

    for step in program.steps:
        text = step.text
        if noise:  # the value of F.abs(v0) + 0.5 inside of a step is rounded as well
            text = re.sub(r"\bv\d+\b", read, text)
            text = re.sub(r"F\.abs\(N\(v\d+\)\) \+ [\d.]+", r"N(\g<0>)", text)
            if isinstance(noise, _Noise):
                text = _FROM_RESULT.sub(r"N.slope(\g<0>, \1)", text)
        result = eval(text, known)
        count = len(step.names)
        results = [result] if count == 1 and not isinstance(result, list) else list(result)
        known.update(zip(step.names, results))
        exact.update(step.names if step.exact else ())
    outputs = [(name, known[name]) for name in program.outputs]
    return [noise(value) if noise and name not in exact else value for name, value in outputs]


def _is_parameter(variable: Variable) -> bool:
    return variable.kind in ("weight", "state")


class _Net(mx.gluon.HybridBlock):
    """A program whose inputs and labels are given, and whose weights and states are parameters."""

    def __init__(self, program: Program, dtype: str, noise: Any) -> None:
        super().__init__(prefix="")
        self._program, self._dtype, self._noise = program, dtype, noise
        for v in filter(_is_parameter, program.variables):
            parameter = self.params.get(v.name, shape=v.shape, dtype=dtype, grad_req=v.request)
            setattr(self, v.name, parameter)
        self.initialize()

    def hybrid_forward(self, F: Any, *inputs: Any, **weights: Any) -> list[Any]:
        names = [v.name for v in self._program.variables if not _is_parameter(v)]
        values = {**dict(zip(names, inputs)), **weights}
        return _evaluate(F, self._program, values, self._dtype, self._noise)


def _start(gradient: Any, variable: Variable) -> None:
    """Fill a gradient's array as it is before backward."""
    gradient[:] = 0.5 if variable.request == "add" else 0


def _heads(program: Program, dtype: str) -> list[Any]:
    return [
        None if head is None else mx.nd.array(head, dtype=dtype) for head in program.heads.values()
    ]


def _run_block(program: Program, dtype: str, hybrid: bool = False, noise: Any = None) -> Arrays:
    """Run as a block, without and with the tape; return all results by name."""
    net = _Net(program, dtype, noise)
    if hybrid:
        net.hybridize()
    inputs: list[Any] = []
    arrays: dict[str, Any] = {}
    for v in program.variables:
        array = mx.nd.array(v.values, dtype=dtype)
        if _is_parameter(v):
            arrays[v.name] = getattr(net, v.name)
            arrays[v.name].set_data(array)
        else:
            arrays[v.name] = array
            inputs.append(array)
            if v.request != "null":
                array.attach_grad(grad_req=v.request)
    results: Arrays = {}
    for i, output in enumerate(net(*inputs)):
        results[f"output {i} of inference"] = output.asnumpy()
        if hybrid:  # shows whether another output or a variable shares this memory
            output[:] = 7
    gradients = {
        v.name: arrays[v.name].grad() if _is_parameter(v) else arrays[v.name].grad
        for v in program.variables
        if v.request != "null"
    }
    for v in program.variables:
        if v.name in gradients:
            _start(gradients[v.name], v)
    with autograd.record():
        outputs = net(*inputs)
    autograd.backward([outputs[i] for i in program.heads], _heads(program, dtype))
    for i, output in enumerate(outputs):
        results[f"output {i}"] = output.asnumpy()
    for v in program.variables:
        if v.request != "null":
            gradient = arrays[v.name].grad() if _is_parameter(v) else arrays[v.name].grad
            results[f"gradient of {v.name}"] = gradient.asnumpy()
        if v.kind == "state":
            results[f"state {v.name}"] = arrays[v.name].data().asnumpy()
    return results


def _run_symbol(program: Program) -> Arrays:
    """Run as a bound symbol that has those outputs which get head gradients."""
    values = {v.name: mx.sym.var(v.name) for v in program.variables}
    outputs = _evaluate(mx.sym, program, values, "float32", None)
    symbol = mx.sym.Group([outputs[i] for i in program.heads])
    by_name = {v.name: v for v in program.variables}
    arguments = {name: mx.nd.array(by_name[name].values) for name in symbol.list_arguments()}
    states = {name: mx.nd.array(by_name[name].values) for name in symbol.list_auxiliary_states()}
    gradients = {name: mx.nd.zeros(array.shape) for name, array in arguments.items()}
    for name, gradient in gradients.items():
        _start(gradient, by_name[name])
    requests = {name: by_name[name].request for name in arguments}
    executor = symbol.bind(mx.cpu(), arguments, gradients, requests, states)
    made = executor.forward(is_train=True)
    executor.backward([
        mx.nd.ones(output.shape) if head is None else head
        for output, head in zip(made, _heads(program, "float32"))
    ])  # fmt: skip
    results = {f"output {i}": output.asnumpy() for i, output in zip(program.heads, made)}
    for name, gradient in gradients.items():
        if requests[name] != "null":
            results[f"gradient of {name}"] = gradient.asnumpy()
    return results | {f"state {name}": array.asnumpy() for name, array in states.items()}


_MODES = {
    "eager": lambda program: _run_block(program, "float32"),
    "hybridized": lambda program: _run_block(program, "float32", hybrid=True),
    "bound": _run_symbol,
}


def _spread(program: Program, exact: Arrays, seeds: range) -> Arrays:
    """Return by how much results differ when every value has an error."""
    spread = {name: np.zeros_like(values) for name, values in exact.items()}
    for noise in (_rounded, *map(_Noise, seeds)):
        for name, values in _run_block(program, "float64", noise=noise).items():
            spread[name] = np.maximum(spread[name], np.abs(values - exact[name]))
    return spread


def _difference(found: Arrays, exact: Arrays, spread: Arrays) -> str | None:
    for name, values in found.items():
        wanted = exact[name]
        if values.shape != wanted.shape:
            return f"{name} has shape {values.shape}, not {wanted.shape}"
        finite = np.isfinite(wanted) & np.isfinite(spread[name])
        scale = np.abs(wanted[finite]).max(initial=1)
        allowed = _FACTOR * spread[name] + _FLOOR * scale
        # NaN is a difference, too.
        wrong = finite & ~(np.abs(values - wanted) <= allowed)
        if wrong.any():
            at = tuple(int(i[0]) for i in np.nonzero(wrong))
            return f"{name} at {at}: {values[at]} instead of {wanted[at]} (+- {allowed[at]:.1e})"
    return None


def compare(program: Program) -> tuple[str, str]:
    """Run a program in all modes; return the kind of the result, and a text if there is a fault."""
    with np.errstate(all="ignore"):
        try:
            exact = _run_block(program, "float64")
            spread = _spread(program, exact, range(_RUNS))
        except MXNetError as error:
            return "refused", str(error)
        for mode, run in _MODES.items():
            try:
                found = run(program)
            except MXNetError as error:
                return "wrong error", f"{mode}: {error}"
            if _difference(found, exact, spread):
                more = _spread(program, exact, range(_RUNS, _RUNS + _MORE_RUNS))
                spread = {name: np.maximum(a, more[name]) for name, a in spread.items()}
                text = _difference(found, exact, spread)
                if text:
                    return "wrong value", f"{mode}: {text}"
    return "same", ""


def _rename(program: Program, old: str, new: str) -> Program:
    pattern = re.compile(rf"\b{old}\b")
    result = copy.copy(program)
    result.steps = [replace(s, text=pattern.sub(new, s.text)) for s in program.steps]
    result.outputs = [new if name == old else name for name in program.outputs]
    return result


def _shorter(program: Program) -> Iterator[Program]:
    """Yield programs with an output or a step less."""
    for k in range(len(program.outputs)):
        result = copy.copy(program)
        result.outputs = program.outputs[:k] + program.outputs[k + 1 :]
        result.heads = {i - (i > k): h for i, h in program.heads.items() if i != k}
        if result.heads:
            yield result
    read = " ".join([*(s.text for s in program.steps), *program.outputs])
    for k in reversed(range(len(program.steps))):
        step = program.steps[k]
        without = copy.copy(program)
        without.steps = program.steps[:k] + program.steps[k + 1 :]
        if not any(re.search(rf"\b{name}\b", read) for name in step.names):
            yield without
        elif len(step.names) == 1:
            for source in dict.fromkeys(re.findall(r"\bv\d+\b", step.text)):
                yield _rename(without, step.names[0], source)
    for k, variable in enumerate(program.variables):
        if not re.search(rf"\b{variable.name}\b", read) and len(program.variables) > 1:
            result = copy.copy(program)
            result.variables = program.variables[:k] + program.variables[k + 1 :]
            yield result


def shrink(program: Program, kind: str) -> Program:
    """Return a shorter program that still has a fault of that kind."""
    tries = 0
    found = True
    while found:
        found = False
        for candidate in _shorter(program):
            tries += 1
            if tries > _MOST_TRIES:
                break
            try:
                found = compare(candidate)[0] == kind
            except Exception:  # a candidate may be an invalid program
                continue
            if found:
                program = candidate
                break
    return program


def run_call(call: Graph) -> tuple[str, str]:
    """Compare a program; a fault comes with a short program that has it."""
    kind, text = compare(call.program)
    if kind in ("wrong value", "wrong error"):
        short = shrink(call.program, kind)
        text = f"{text}\n{short}\n{compare(short)[1]}"
    return kind, text
