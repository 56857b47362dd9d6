"""Calls of ``mx.sym`` that leave inputs out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mxlite import sym

# Written by tests/data/make_compositions.py: {operator: [[parameters, arguments, states, outputs]]}
PATH = Path(__file__).resolve().parents[2] / "data" / "compositions_1.9.1.json"
COMPOSED: dict[str, list[tuple[dict[str, str], list[str], list[str], list[str]]]]
COMPOSED = json.loads(PATH.read_text())


def call(op: str, **arguments: Any) -> Any:
    """Return the symbol of a call of an operator under the name ``n``."""
    return vars(sym._internal)[op](name="n", **arguments)


def names(symbol: Any) -> list[list[str]]:
    """Return names of arguments, states and outputs without the node's name."""
    listed = symbol.list_arguments(), symbol.list_auxiliary_states(), symbol.list_outputs()
    return [[name.removeprefix("n_") for name in part] for part in listed]


@pytest.mark.parametrize("op", COMPOSED)
def test_inputs_that_are_left_out_have_the_names_of_1x(op: str) -> None:
    for params, *expected in COMPOSED[op]:
        assert names(call(op, **params)) == expected, params


@pytest.mark.parametrize("op", [op for op in COMPOSED if "num_args" not in COMPOSED[op][0][0]])
def test_any_one_input_may_be_given(op: str) -> None:
    params, arguments, states, outputs = COMPOSED[op][-1]
    for name in [*arguments, *states]:
        found = call(op, **params, **{name: sym.var("given")})
        shown = ["given" if other == name else other for other in arguments]
        hidden = ["given" if other == name else other for other in states]
        assert names(found) == [shown, hidden, outputs], name
