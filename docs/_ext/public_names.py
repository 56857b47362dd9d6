"""The public names of the package, and how many lack a part of their documentation.

Methods and properties of public classes need a description; the other parts are counted for names
of modules.

``python docs/_ext/public_names.py`` prints the counts, ``--list PART`` the names that lack a part
with the files and lines where they are defined.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import inspect
import itertools
import re
import sys
import types
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mxlite import _core

PACKAGE = Path(str(_core.__file__)).parent
# The modules that programs import, under the title of their group in the reference.
MODULES = {
    "Arrays and gradients": (
        "ndarray ndarray.random ndarray.sparse ndarray.contrib autograd context random util"
    ),
    "Numpy mode": "numpy numpy.linalg numpy.random numpy.array_api numpy_extension",
    "Networks": (
        "gluon gluon.nn gluon.rnn gluon.loss gluon.utils gluon.model_zoo.vision gluon.contrib.nn "
        "gluon.contrib.nn.transformer gluon.contrib.rnn gluon.contrib.cnn"
    ),
    "Training": (
        "optimizer lr_scheduler initializer metric callback monitor checkpoint "
        "gluon.contrib.estimator contrib.amp"
    ),
    "Data": (
        "gluon.data gluon.data.vision gluon.data.vision.transforms gluon.contrib.data io image "
        "recordio contrib.text.embedding contrib.text.vocab contrib.text.utils contrib.io"
    ),
    "Several processes": (
        "horovod horovod.elastic kvstore parallel gluon.contrib.parallel run ray"
    ),
    "Symbols and modules": (
        "symbol symbol.random symbol.contrib executor module attribute name model rnn "
        "contrib.svrg_optimization"
    ),
    "Deployment": "onnx contrib.quantization",
    "Operators of programs": "operator rtc library",
    "Tools": (
        "profiler runtime config visualization contrib.tensorboard test_utils registry engine "
        "error log libinfo base compat"
    ),
}


def _read_examples() -> dict[str, tuple[int, list[str]]]:
    """Return the line and the statements of each example in ``examples.txt`` by the full name."""
    found: dict[str, tuple[int, list[str]]] = {}
    module = ""
    text = Path(__file__).with_name("examples.txt").read_text()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("["):
            module = line.strip("[]")
        elif line and line[0] != "#":
            names, code = line.split(": ", 1)
            for name in names.split():
                found[f"{module}.{name}"] = number, code.replace("{name}", name).split("; ")
    return found


EXAMPLES = _read_examples()
# Parts of documentation, and how many public names may lack each: the goal is 0 for all.
LIMITS = {"description": 0, "parameters": 483, "returns": 171, "example": 380}


@dataclass(frozen=True)
class Name:
    """A public class or function and the module that documents it."""

    module: str
    name: str
    value: Any
    also: tuple[str, ...] = ()  # other public paths to the same object

    @property
    def full(self) -> str:
        """The path under which the reference has it."""
        return f"{self.module}.{self.name}"

    @property
    def place(self) -> str:
        """The file and line of its definition."""
        source = inspect.unwrap(self.value)
        try:
            file, line = inspect.getsourcefile(source), inspect.getsourcelines(source)[1]
        except (TypeError, OSError):
            return "?:0"
        return f"python/mxlite/{Path(str(file)).relative_to(PACKAGE)}:{line}"


def module_paths() -> list[str]:
    """Return the full names of the public modules, in the order of the reference."""
    return ["mxlite", *(f"mxlite.{path}" for text in MODULES.values() for path in text.split())]


def find_module(path: str) -> types.ModuleType:
    """Return the module that programs reach under a path, which may be an attribute of another."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        parent, _, name = path.rpartition(".")
        module: types.ModuleType = getattr(importlib.import_module(parent), name)
        return module


def _is_operator(value: Any) -> bool:
    """Return whether a value is an operator of the schema, which has a page of its own."""
    return type(value).__name__ in {"Op", "Operator"} or isinstance(value, type(_core.op("relu")))


def _members(path: str) -> dict[str, Any]:
    """Return the classes and functions of the package that a module publishes."""
    module = find_module(path)
    listed = vars(module).get("__all__", [n for n in vars(module) if n[0] != "_"])
    found = {}
    for name in (n for n in listed if n[0] != "_"):
        value = getattr(module, name, None)
        if not (inspect.isclass(value) or inspect.isroutine(value)) or _is_operator(value):
            continue
        if isinstance(value, type(ctypes.POINTER(ctypes.c_float))):  # a type that ctypes made
            continue
        if str(getattr(value, "__module__", "")).split(".")[0] == "mxlite":
            found[name] = value
    return found


def public_names() -> dict[str, list[Name]]:
    """Return the names by module; one that several modules publish is in the best of them.

    That is the module that defines it, else the public one nearest to it.
    """
    places: dict[int, list[tuple[int, Name]]] = {}
    paths = module_paths()
    for path in paths:
        for name, value in _members(path).items():
            shared = sum(a == b for a, b in zip(path.split("."), value.__module__.split(".")))
            rank = 100 * shared - 10 * path.count(".") + (name == value.__name__)
            places.setdefault(id(value), []).append((rank, Name(path, name, value)))
    names: dict[str, list[Name]] = {path: [] for path in paths}
    for entries in places.values():
        best = max(entries, key=lambda entry: entry[0])[1]
        also = tuple(entry.full for _, entry in entries if entry is not best)
        names[best.module].append(replace(best, also=also))
    return {path: sorted(found, key=lambda n: n.name) for path, found in names.items()}


def _parameters(value: Any) -> list[str]:
    """Return the names of a callable's parameters without self."""
    try:
        found = list(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return []
    return [name for name in found if name not in {"self", "cls"}]


def missing_parts(name: Name) -> list[str]:
    """Return which of `LIMITS` the documentation of a class or function lacks."""
    value = name.value
    doc = inspect.cleandoc(value.__doc__ or "")  # not that of a base class
    lacks = [] if doc else ["description"]
    is_class = inspect.isclass(value)
    if is_class and issubclass(value, BaseException):
        return lacks
    if _parameters(value) and not re.search(r"^Parameters\n-+$", doc, re.MULTILINE):
        lacks.append("parameters")
    if not is_class and not re.search(r"^(Returns?|Yields)(\n-+$|\b)", doc, re.MULTILINE):
        lacks.append("returns")
    if name.full not in EXAMPLES and not re.search(r"^(Examples?\n-+$|>>> )", doc, re.MULTILINE):
        lacks.append("example")
    return lacks


def members(name: Name) -> list[Name]:
    """Return the public methods and properties that a class defines or changes."""
    found = []
    for member, value in vars(name.value).items() if inspect.isclass(name.value) else ():
        if isinstance(value, (property, functools.cached_property)):
            value = value.fget if isinstance(value, property) else value.func
        elif isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        if member[0] != "_" and callable(value) and not inspect.isclass(value):
            found.append(Name(name.module, f"{name.name}.{member}", value))
    return found


def lacking() -> dict[str, list[Name]]:
    """Return the names that lack each part, in the order of the reference."""
    found: dict[str, list[Name]] = {part: [] for part in LIMITS}
    for name in itertools.chain.from_iterable(public_names().values()):
        for part in missing_parts(name):
            found[part].append(name)
        found["description"] += [m for m in members(name) if not (m.value.__doc__ or "").strip()]
    return found


def faults() -> list[str]:
    """Return what keeps the site from being built: names without a part, above the limits."""
    found = []
    for part, names in lacking().items():
        limit = LIMITS[part]
        if len(names) > limit:
            listed = [f"{n.place}: {n.full} lacks {part}" for n in names] if limit == 0 else []
            how = f"docs/_ext/public_names.py --list {part} names them"
            found += listed or [f"{len(names)} public names lack {part}, limit {limit}: {how}"]
        elif len(names) < limit:
            found.append(f"docs/_ext/public_names.py: set the limit of {part} to {len(names)}")
    return found


def main() -> None:
    """Print the counts, or the names that lack a part."""
    found = lacking()
    if "--list" not in sys.argv:
        names = [*itertools.chain.from_iterable(public_names().values())]
        methods = sum(len(members(name)) for name in names)
        print(
            {
                "names": len(names),
                "methods": methods,
                **{part: len(names) for part, names in found.items()},
            }
        )
        return
    for name in found[sys.argv[sys.argv.index("--list") + 1]]:
        print(f"{name.place}: {name.full}")


if __name__ == "__main__":
    main()
