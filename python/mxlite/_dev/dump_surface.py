"""List the public names of MXNet 1.9.1; run by a Python that has MXNet instead of mxlite.

``python python/mxlite/_dev/dump_surface.py`` writes ``tests/data/surface_1_9_1.json``:
``{module: {name: entry}}``. An entry is null for a value, a list of parameter names for a function
(``*args``, ``**kwargs`` with their stars), ``{member: entry}`` for a class, ``{}`` for a class seen
outside the module that defines it, and the module's full name for a submodule.

``python/mxlite/_names_1x/imports_1_9_1.json`` has the names that the modules import from one
another, as ``{module: {name: "home" or "home:name"}}``, because programs also import them from
there.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
import types
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[3] / "tests" / "data" / "surface_1_9_1.json"
IMPORTS = Path(__file__).resolve().parents[1] / "_names_1x" / "imports_1_9_1.json"

# Modules that nobody calls: build files, generated copies of op modules, documentation holders.
_NUMPY_MODE = (".numpy", ".numpy_extension")
_SKIPPED = [
    *"api cython libmxnet ndarray_doc symbol_doc onnx.setup tvmop".split(),
    *(f"{a}{b}" for a in ("ndarray", "symbol") for b in _NUMPY_MODE),
    *(f"numpy.{name}" for name in "arrayprint fallback fallback_linalg function_base io".split()),
    *(f"numpy.{name}" for name in "multiarray stride_tricks utils".split()),
]
_SKIPPED_PARTS = ("_", "gen_", "_op_translations", "numpy_op_", "numpy_dispatch")

# Operators that only other operators call.
_HELPER_OPS = ("_backward", "backward_", "_np", "_sg_mkldnn", "_contrib_backward", "_CachedOp")

# Private names that packages built on MXNet import.
_PRIVATE = {
    "mxnet.gluon.loss": ["_apply_weighting", "_reshape_like"],
    "mxnet.gluon.data.dataloader": ["_MultiWorkerIter", "_as_in_context"],
    "mxnet.gluon.utils": ["_get_repo_url", "_get_repo_file_url"],
    "mxnet.gluon.model_zoo.model_store": ["_model_sha1"],
    "mxnet.image.image": ["_get_interp_method"],
    "mxnet.base": ["_LIB", "_Null", "_as_list"],
    # Public names that the module re-exports from another module.
    "mxnet.random": "exponential gamma generalized_negative_binomial multinomial negative_binomial "
    "normal poisson randint randn shuffle uniform".split(),
}


def parameters(function: Any) -> Any:
    """Return the names of a function's parameters, stars included; null if it has no signature."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    stars: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    return [stars.get(p.kind, "") + p.name for p in found]


def members(klass: type) -> dict[str, Any]:
    """Return the public methods, the properties and the constructor that a class itself defines."""
    found: dict[str, Any] = {}
    for name, value in vars(klass).items():
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        found[name] = parameters(value) if inspect.isfunction(value) else None
    return dict(sorted(found.items()))


def assigned_names(module: types.ModuleType) -> set[str]:
    """Return the names that the module's source assigns at top level."""
    try:
        tree = ast.parse(Path(str(module.__file__)).read_text())
    except (OSError, SyntaxError):
        return set()
    return {
        target.id
        for statement in ast.walk(tree)
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        for target in ast.walk(statement)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }


def entry(module: types.ModuleType, value: Any) -> Any:
    """Return the entry of one name."""
    if inspect.isclass(value):
        return members(value) if value.__module__ == module.__name__ else {}
    if callable(value) and not isinstance(value, type):
        return parameters(value)
    return None


def public_names(module: types.ModuleType) -> dict[str, Any]:
    """Return the public names of one module with their entries."""
    package = hasattr(module, "__path__")
    listed = set(getattr(module, "__all__", ()))
    assigned = assigned_names(module)
    generated = module.__name__.rpartition(".")[2] == "_internal"
    private = _PRIVATE.get(module.__name__, [])
    found: dict[str, Any] = {}
    for name, value in sorted(vars(module).items()):
        hidden = name.startswith("_")
        if (hidden and name not in private and not (generated and name[1:2] != "_")) or (
            generated and not hidden
        ):
            continue
        if ".ndarray" in module.__name__ or ".symbol" in module.__name__:
            if name.startswith(_HELPER_OPS):
                continue
        if isinstance(value, types.ModuleType):
            known = not skipped(value.__name__) or value.__name__.endswith(_NUMPY_MODE)
            if package and value.__name__.startswith("mxnet.") and not hidden and known:
                found[name] = value.__name__
            continue
        home = getattr(value, "__module__", None)
        ours = isinstance(home, str) and home.split(".")[0] == "mxnet"
        defined = home == module.__name__ or (ours and (package or generated))
        if name in listed or name in private or defined or (not ours and name in assigned):
            numpy_mode = module.__name__.startswith("mxnet.numpy")
            found[name] = None if numpy_mode else entry(module, value)
    return found


def imported_names(module: types.ModuleType) -> dict[str, str]:
    """Return the names that a module imports from the package, with the modules they come from."""
    found: dict[str, str] = {}
    for name, value in sorted(vars(module).items()):
        if name.startswith("__"):
            continue
        if isinstance(value, types.ModuleType):
            home = target = value.__name__
        else:
            home = getattr(value, "__module__", None) or ""
            origin = vars(sys.modules[home]) if home in sys.modules else {}
            names = [n for n in (name, getattr(value, "__name__", "")) if origin.get(n) is value]
            if home == module.__name__ or not names:
                continue
            target = f"{home}:{names[0]}"
        if home.startswith("mxnet.") and not skipped(home) and home != module.__name__:
            found[name] = target
    return found


def skipped(name: str) -> bool:
    """Return whether a module is not part of the interface."""
    rest = name[len("mxnet.") :]
    parts = rest.split(".")
    inner = any(part.startswith(_SKIPPED_PARTS) for part in parts) and parts[-1] != "_internal"
    return any(rest == s or rest.startswith(s + ".") for s in _SKIPPED) or inner


def write(path: Path, table: dict[str, Any]) -> None:
    """Write a table with one module per line."""
    rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(table.items()))
    path.write_text("{\n" + rows + "\n}\n")


def main() -> None:
    """Walk over all modules and write the list."""
    import mxnet  # type: ignore[import-not-found]

    surface = {"mxnet": public_names(mxnet)}
    imports: dict[str, dict[str, str]] = {}
    for found in pkgutil.walk_packages(mxnet.__path__, "mxnet.", onerror=lambda name: None):
        if skipped(found.name):
            continue
        try:
            module = importlib.import_module(found.name)
        except Exception as error:  # a module whose requirements are not installed
            print(f"left out {found.name}: {type(error).__name__}: {error}")
            continue
        surface[found.name] = public_names(module)
        imports[found.name] = imported_names(module)
    write(TARGET, surface)
    write(IMPORTS, {name: found for name, found in imports.items() if found})
    print(f"{len(surface)} modules, {sum(map(len, surface.values()))} names")


if __name__ == "__main__":
    main()
