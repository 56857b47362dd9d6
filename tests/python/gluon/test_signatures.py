"""Classes and functions take the arguments of MXNet 1.9.1, in its order, with its defaults.

``signatures_1_9_1.json`` was written with ``inspect.signature`` by 1.9.1 itself: for each name the
parameters as (name, default as text or null).
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

SIGNATURES = json.loads(Path(__file__).with_name("signatures_1_9_1.json").read_text())

# Defaults that are spelled in another way and mean the same.
SAME = {("gluon.parameter.Constant.initialize", "default_init")}


def resolve(name: str) -> Any:
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module("mxlite." + ".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def text(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return repr(value).replace("'", '"')


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_the_arguments_are_those_of_1_9_1(name: str) -> None:
    parameters = inspect.signature(resolve(name)).parameters.values()
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ours = [p for p in parameters if p.kind not in variadic and p.name != "self"]
    wanted = [(n, default) for n, default in SIGNATURES[name] if not n.startswith("*")]
    assert [p.name for p in ours[: len(wanted)]] == [n for n, _ in wanted]
    for parameter, (argument, default) in zip(ours, wanted):
        if default is None:
            assert parameter.default is parameter.empty, argument
        elif " object at " not in default and (name, argument) not in SAME:
            assert text(parameter.default) == default, argument
    for parameter in ours[len(wanted) :]:  # further ones must not be needed
        assert parameter.default is not parameter.empty, parameter.name
