"""Ranges of parameters: each refuses what lies outside, accepts its ends, stands in the docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import mxlite as mx
import pytest
from mxlite import nd

# Values of required parameters of each type; ops check them before the one in question.
FILLERS = {"int": 1, "float": 1.0, "str": "x", "bool": True, "DTypeLike": "float32"}
NUMBER = r"-?[0-9.e+-]+"


def filler(param: dict[str, Any]) -> Any:
    """Return a value that the parameter accepts."""
    kind = param["python_type"]
    choice = re.match(r"Literal\['([^']+)'", kind)
    if choice:
        return choice[1]
    low = inside(param["range"])[0] if param["range"] else None
    if kind.startswith("int | Sequence"):
        return (1 if low is None else low,) * 2
    return FILLERS[kind.split(" | ")[0]] if low is None else low


def inside(text: str) -> list[float]:
    """Return numbers at the ends of a range that it holds."""
    low, high = (
        re.search(rf"(at least|above|from) ({NUMBER})", text),
        re.search(rf"(at most|below|to) (?:below )?({NUMBER})", text),
    )
    ends = []
    if low:
        ends.append(float(low[2]) + (0.5 if low[1] == "above" else 0))
    if high:
        ends.append(float(high[2]) - (0.5 if "below" in text else 0))
    assert ends, text
    ends = [end // 2 if abs(end) > 1e6 else end for end in ends]  # float32 rounds such bounds
    return [int(end) if end == int(end) else end for end in ends]


def outside(text: str) -> list[float]:
    """Return numbers next to the ends of a range that it does not hold."""
    low = re.search(rf"(at least|above|from) ({NUMBER})", text)
    high = re.search(rf"(at most|below|to) (?:below )?({NUMBER})", text)
    numbers = []
    if low:
        numbers.append(float(low[2]) * (2 if low[2] < "0" else 1) - (low[1] != "above"))
    if high:
        numbers.append(float(high[2]) * (1 if "below" in text else 2) + ("below" not in text))
    return [int(number) for number in numbers]


def bounded() -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Yield operator, bounded parameter and the parameters before it."""
    for op in mx._core.list_ops():
        for i, param in enumerate(op["params"]):
            if param["range"]:
                yield op["name"], param, op["params"][:i]


def call(op: str, param: dict[str, Any], before: list[dict[str, Any]], value: Any) -> None:
    """Check parameters as those of a graph's file; those after `param` are left out."""
    values = {p["name"]: filler(p) for p in before if p["required"]}
    number_or_list = param["python_type"].startswith("float | Sequence")  # one for each weight
    is_list = "Sequence" in param["python_type"] and not number_or_list
    count = 1 if "multi_" in op else 2
    values[param["name"]] = (value,) * count if is_list else value
    mx._core.OpCall(op, {name: str(v) for name, v in values.items()})


@pytest.mark.parametrize(
    ("op", "param", "before"), [pytest.param(*row, id=f"{row[0]}-{row[1]['name']}")
                                for row in bounded()],
)  # fmt: skip
def test_ranges_hold_for_every_operator(op: str, param: Any, before: Any) -> None:
    name, text = param["name"], re.escape(param["range"])
    for number in outside(param["range"]):
        with pytest.raises(ValueError, match=f"parameter {name} must be {text}, got"):
            call(op, param, before, number)
    if param["python_type"].startswith("float"):
        with pytest.raises(ValueError, match=f"parameter {name} must be {text}, got .*nan"):
            call(op, param, before, float("nan"))
    for number in inside(param["range"]):
        try:
            call(op, param, before, number)
        except (TypeError, ValueError) as error:  # noqa: PERF203 - the check of other parameters
            assert re.search("missing required keyword argument|one for each weight", str(error))


# Parameters that crash, loop or give wrong numbers if nothing bounds them, wherever they stand.
ALWAYS = {
    "kernel", "stride", "dilate", "num_group", "num_groups", "num_hidden", "num_layers", "heads",
    "state_size", "eps", "epsilon", "beta1", "beta2", "gamma1", "depth", "repeats", "reps",
    "block_size", "pooled_size", "spatial_scale", "nsize", "out_dim", "interp", "num_weights",
    "num_tensors", "num_arrays", "num_outputs", "repeat", "nnz", "input_dim", "output_dim", "t",
    "pad_width", "ord", "offsets", "ratios", "feature_stride", "ndev", "scale_height",
    "smooth_alpha",
}  # fmt: skip


def test_sizes_counts_and_rates_have_ranges() -> None:
    found = {p["name"]: [] for op in mx._core.list_ops() for p in op["params"]}
    assert set(found) >= ALWAYS
    missing = [
        (op["name"], param["name"])
        for op in mx._core.list_ops()
        for param in op["params"]
        if param["name"] in ALWAYS and not param["range"]
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda x: nd.BatchNorm(x, *[nd.ones(3)] * 4, eps=-1), "eps must be at least 0, got -1"),
        (lambda x: nd.Dropout(x, p=float("nan")), "p must be from 0 to 1, got nan"),
        (lambda x: nd.RNN(x, x, x, mode="gru", state_size=1, num_layers=1, p=1),
         "p must be from 0 to below 1, got 1"),
        (lambda x: nd.contrib.MultiBoxPrior(x, ratios=(1, 0)), "must be above 0"),
        (lambda x: nd.ftml_update(x, x, x, x, x, lr=1, t=0), "t must be at least 1, got 0"),
    ],
)  # fmt: skip
def test_error_says_what_is_expected(act: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        act(nd.ones((2, 3, 4, 4)))


def test_docs_show_ranges() -> None:
    text = nd.Convolution.__doc__
    assert "from 1 to 2147483647" in text
