"""Compares the public names and signatures with those of the last release.

``check_api.py`` compares with the newest file in ``tools/release/api``; ``check_api.py --write``
adds or replaces the file of the version in pyproject.toml, and is run when a version is released.
A line is ``module.name(parameter, optional=, *rest, keyword=, **options)``.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

import mxlite.horovod
from contents import project_version
from interpreters import ROOT

BASES = ROOT / "tools" / "release" / "api"


def _modules() -> Iterator[types.ModuleType]:
    """Yield the public modules that ``import mxlite`` reaches, each once."""
    found, waiting = set(), [mxlite, mxlite.horovod]
    while waiting:
        module = waiting.pop(0)
        if module.__name__ in found:
            continue
        found.add(module.__name__)
        yield module
        values = [getattr(module, name) for name in _public_names(module)]
        waiting += [
            value
            for value in values
            if isinstance(value, types.ModuleType) and value.__name__.startswith("mxlite.")
        ]


def _public_names(module: types.ModuleType) -> list[str]:
    """Return the names that the module declares as public, or else those of its files."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    found = []
    for name in dir(module):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            home, top = value.__name__, module.__name__
            hidden = home.endswith(".op")  # repeats the operators of its parent
        else:
            home, top, hidden = getattr(value, "__module__", None) or "mxlite", "mxlite", False
        if not name.startswith("_") and not hidden and home.startswith(top):
            found.append(name)
    return found


def _line(name: str, value: Any, skip_self: bool = False) -> str:
    """Return the name with the parameters of a callable."""
    try:
        parameters = list(inspect.signature(value).parameters.values())[int(skip_self) :]
    except (TypeError, ValueError):  # not callable, or a C function without signature
        return name
    words, keyword_only = [], False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            words.append("*")
        keyword_only |= one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        words.append(stars + one.name + "=" * (one.default is not one.empty))
    return f"{name}({', '.join(words)})"


def public_api() -> list[str]:
    """Return a line for each public function, class, method and attribute, sorted."""
    lines, classes = set(), {}
    for module in _modules():
        for name in _public_names(module):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                continue
            full = f"{module.__name__}.{name}"
            lines.add(_line(full, value))
            if isinstance(value, type) and value.__module__.startswith("mxlite"):
                classes.setdefault(value, full)
    for owner, full in classes.items():
        inherited = {name for base in owner.__mro__[1:] if base in classes for name in dir(base)}
        for name in dir(owner):
            if not name.startswith("_") and name not in inherited and hasattr(owner, name):
                value = getattr(owner, name)
                lines.add(_line(f"{full}.{name}", value, isinstance(value, types.FunctionType)))
    return sorted(lines)


def _parsed(lines: list[str]) -> dict[str, list[str] | None]:
    found: dict[str, list[str] | None] = {}
    for line in lines:
        name, bracket, rest = line.partition("(")
        found[name] = [w for w in rest[:-1].split(", ") if w] if bracket else None
    return found


def breaks(old: list[str] | None, new: list[str] | None) -> str:
    """Return the reason why old calls may fail with the new signature, or an empty text."""
    if old is None or new is None or old == new:
        return ""
    positional = [w.rstrip("=") for w in old if not w.startswith("*")]
    present = {w.rstrip("=") for w in new}
    takes_any = any(w.startswith("**") for w in new)
    lost = [n for n in positional if n not in present and not takes_any]
    if lost:
        return f"no parameter {', '.join(lost)}"
    required = [w for w in new if "*" not in w and "=" not in w and w not in old]
    if required:
        return f"requires {', '.join(required)}"

    def ordered(words: list[str]) -> list[str]:
        star = next((i for i, w in enumerate(words) if w.startswith("*")), len(words))
        return [w.rstrip("=") for w in words[:star]]

    if ordered(new)[: len(ordered(old))] != ordered(old):
        return f"positions were {', '.join(ordered(old))}"
    return ""


def differences(old_lines: list[str], new_lines: list[str]) -> list[str]:
    """Return names that programs of the old version may miss in the new version."""
    old, new = _parsed(old_lines), _parsed(new_lines)
    problems = [f"{name}: missing" for name in old if name not in new]
    for name in old.keys() & new.keys():
        if why := breaks(old[name], new[name]):
            problems.append(f"{name}: {why}")
    return sorted(problems)


def main() -> int:
    """Compare or write. Return 1 if a name is missing or its signature breaks calls."""
    now = public_api()
    if sys.argv[1:] == ["--write"]:
        target = BASES / f"{project_version()}.txt"
        target.parent.mkdir(exist_ok=True)
        target.write_text("\n".join(now) + "\n")
        print(f"{target.relative_to(ROOT)}: {len(now)} names")
        return 0
    bases = sorted(BASES.glob("*.txt"), key=lambda p: [int(n) for n in p.stem.split(".")])
    if not bases:
        print("api: there is no base in tools/release/api", file=sys.stderr)
        return 1
    old = bases[-1].read_text().splitlines()
    problems = differences(old, now)
    for problem in problems:
        advice = "docs/explanation/versions.md says how a name is removed"
        print(f"api: {problem} ({advice})", file=sys.stderr)
    added = len(_parsed(now).keys() - _parsed(old).keys())
    print(f"api: {len(now)} names, {added} new since {bases[-1].stem}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
