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
from dataclasses import dataclass, field, replace
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


@dataclass
class Section:
    """A section of ``parameters.txt``: parameters and results of the names of a module."""

    parameters: dict[str, tuple[str, str]] = field(default_factory=dict)  # type and text
    likes: dict[str, str] = field(default_factory=dict)  # name to one with the same parameters
    results: dict[str, tuple[str, str]] = field(default_factory=dict)


def _read_parameters() -> dict[str, Section]:
    """Return the sections of ``parameters.txt`` by module."""
    sections: dict[str, Section] = {}
    for line in Path(__file__).with_name("parameters.txt").read_text().splitlines():
        if not line or line[0] == "#":
            continue
        if line[0] == "[":
            section = sections.setdefault(line.strip("[]"), Section())
        elif " = " in line and " | " not in line:
            names, _, other = line.partition(" = ")
            section.likes |= dict.fromkeys(names.split(), other)
        else:
            names, kind, text = (part.strip() for part in line.split("|"))
            table = section.results if names.startswith("-> ") else section.parameters
            table |= dict.fromkeys(names.removeprefix("-> ").split(), (kind, text))
    return sections


EXAMPLES = _read_examples()
SECTIONS = _read_parameters()
PARAMETERS = re.compile(r"^Parameters\n-+$", re.MULTILINE)
RETURNS = re.compile(r"^(Returns?|Yields)(\n-+$|\b)", re.MULTILINE)
# Parts of documentation, and how many public names may lack each: the goal is 0 for all.
LIMITS = {"description": 0, "parameters": 0, "returns": 0, "example": 65}


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
    """Return the names by module.

    A name that several modules publish belongs to the one that defines it, or else to the nearest
    public one.
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


def _listed_parameters(doc: str) -> dict[str, tuple[str, str]]:
    """Return type and text of the parameters that a docstring lists."""
    body = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n---|\Z)", doc, re.MULTILINE | re.DOTALL)
    found = {}
    for entry in re.split(r"\n(?=\S)", body[1].rstrip()) if body else ():
        head, _, text = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        entries = (kind, " ".join(text.split()))
        found |= dict.fromkeys((name.strip("* ") for name in names.split(",")), entries)
    return found


def _find_parameter(path: str, name: str, parameter: str) -> tuple[str, str] | None:
    """Return type and text of a parameter in ``parameters.txt``, from the module outwards."""
    module = path
    while module:
        section = SECTIONS.get(module, Section())
        other = section.likes.get(name)
        if other is not None:
            doc = getattr(find_module(other.rpartition(".")[0]), other.rpartition(".")[2]).__doc__
            listed = _listed_parameters(inspect.cleandoc(doc))
            if parameter in listed:
                return listed[parameter]
        for key in (f"{name}.{parameter}", parameter):
            if key in section.parameters:
                return section.parameters[key]
        module = module.rpartition(".")[0]
    return None


def added_sections(path: str, name: str, value: Any) -> list[str]:
    """Return the lines that ``parameters.txt`` adds to a docstring without these sections."""
    doc = inspect.cleandoc(value.__doc__ or "")
    lines: list[str] = []
    names = _parameters(value)
    if names and not PARAMETERS.search(doc):
        found = {parameter: _find_parameter(path, name, parameter) for parameter in names}
        if all(found.values()):
            lines += ["", "Parameters", "----------"]
            for parameter, (kind, text) in ((p, f) for p, f in found.items() if f):
                lines += [f"{parameter} : {kind}" if kind else parameter, f"    {text}"]
    result = SECTIONS.get(path, Section()).results.get(name)
    if result and not re.search(r"^Returns\n-+$", doc, re.MULTILINE):
        lines += ["", "Returns", "-------", result[0], f"    {result[1]}"]
    return lines


def missing_parts(name: Name) -> list[str]:
    """Return which of `LIMITS` the documentation of a class or function lacks."""
    value = name.value
    doc = inspect.cleandoc(value.__doc__ or "")  # a base class's docstring does not count
    lacks = [] if doc else ["description"]
    is_class = inspect.isclass(value)
    if is_class and issubclass(value, BaseException):
        return lacks
    doc = "\n".join([doc, *added_sections(name.module, name.name, value)])
    if _parameters(value) and not PARAMETERS.search(doc):
        lacks.append("parameters")
    if not (is_class or _returns_nothing(value) or RETURNS.search(doc)):
        lacks.append("returns")
    if name.full not in EXAMPLES and not re.search(r"^(Examples?\n-+$|>>> )", doc, re.MULTILINE):
        lacks.append("example")
    return lacks


def _returns_nothing(value: Any) -> bool:
    """Return whether a signature says that a function returns None."""
    try:
        return inspect.signature(value).return_annotation in {"None", None}
    except (TypeError, ValueError):
        return False


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
