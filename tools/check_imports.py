"""Checks the structure of ``python/mxlite``: imports point down, in no circle, at the top of files.

A layer is a module or folder that the list below names, right below ``python/mxlite`` or deeper. A
layer imports itself and the layers that the list has before it. Imports for type checkers only do
not count for layers, but few files may name each other in circles by them. No class is a base that
only one class has beside others: such a mixin divides a class, not its duties.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent / "python"

# The layers, from the lowest to the highest.
LAYERS = """
_core base _html _progress _typed_init _rnn_vector _names_1x _native _files config context attribute
name registry lr_scheduler recordio runtime numpy_mode util ndarray random autograd profiler
operator rtc symbol numpy executor visualization
initializer optimizer metric io image numpy_extension comm kvstore contrib.text parallel gluon
parallel.layers parallel.tied parallel.stage_states parallel.pipeline
gluon.contrib.parallel module monitor callback
contrib contrib.autograd contrib.io contrib.tensorboard contrib.amp contrib.quantization
contrib.svrg_optimization
checkpoint convert run tools horovod ray modules_1x onnx mxlite compat test_utils _dev __main__
""".split()

MOST_INSIDE_FUNCTIONS = 10
MOST_IN_TYPED_CIRCLES = 10  # number of files


class Import(NamedTuple):
    """One imported module of the package."""

    module: str
    target: str
    line: int
    inside_function: bool
    reason: str  # the comment beside the import or above it
    for_types: bool


def _names_of_files() -> dict[str, Path]:
    found = {"mxlite._core": ROOT / "mxlite" / "_core.pyi"}
    for path in sorted((ROOT / "mxlite").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


FILES = _names_of_files()


def layer_of(module: str) -> str:
    """Return the layer of a module. The package itself is the layer ``mxlite``."""
    name = module.partition(".")[2]
    while "." in name and name not in LAYERS:
        name = name.rpartition(".")[0]
    return name or "mxlite"


def _targets(node: ast.Import | ast.ImportFrom, module: str, is_package: bool) -> Iterator[str]:
    """Yield the modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        base = node.module or ""
        if node.level:
            parts = module.split(".")
            kept = parts[: len(parts) - node.level + is_package]
            base = ".".join([*kept, *base.split(".")] if base else kept)
        names = [
            f"{base}.{alias.name}" if f"{base}.{alias.name}" in FILES else base
            for alias in node.names
        ]
    yield from (name for name in names if name in FILES)


def _for_type_checkers(test: ast.expr) -> bool:
    return getattr(test, "id", getattr(test, "attr", "")).endswith("TYPE_CHECKING")


def _by_text(node: ast.AST) -> str | None:
    """Return the module that ``import_module("mxlite.x")`` names."""
    if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
        return None
    called = getattr(node.func, "id", getattr(node.func, "attr", ""))
    name = node.args[0].value
    return name if called == "import_module" and name in FILES else None


def imports_of(module: str) -> list[Import]:
    """Return all imports of modules of the package in a file."""
    path = FILES[module]
    if path.suffix == ".pyi":
        return []
    text = path.read_text()
    lines = text.splitlines()
    found: list[Import] = []

    def reason(line: int) -> str:
        above = lines[line - 2].strip()
        beside = lines[line - 1].partition("#")[2]
        return beside.strip() or (above if above.startswith("#") else "")

    def visit(nodes: Iterable[ast.AST], inside: bool, for_types: bool) -> None:
        for node in nodes:
            targets: list[str] = []
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                targets = sorted({*_targets(node, module, path.name == "__init__.py")})
            elif (named := _by_text(node)) is not None:
                targets = [named]
            found.extend(
                Import(module, target, line, inside, reason(line), for_types)
                for target in targets
                for line in (node.lineno,)  # type: ignore[attr-defined]
            )
            if isinstance(node, ast.If) and _for_type_checkers(node.test):
                visit(node.body, inside, True)
                visit(node.orelse, inside, for_types)
                continue
            function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            visit(ast.iter_child_nodes(node), inside or function, for_types)

    visit(ast.parse(text).body, False, False)
    return found


def _loaded(module: str, target: str) -> Iterator[str]:
    """Yield the modules that an import of target loads, except packages of the module."""
    while target and not f"{module}.".startswith(f"{target}."):
        yield target
        target = target.rpartition(".")[0]


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach one another, each sorted (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def walk(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                walk(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            group = sorted(stack[at:])
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for node in sorted(graph):
        if node not in index:
            walk(node)
    return found


def lone_mixins(trees: Iterable[ast.AST]) -> list[str]:
    """Return the classes that are named only once, as one of several bases of a class."""
    bases: set[str] = set()
    names: Counter[str] = Counter()
    own: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            own.add(node.name)
            if len(node.bases) > 1:
                bases.update(base.id for base in node.bases if isinstance(base, ast.Name))
        elif isinstance(node, (ast.Name, ast.Attribute)):
            names[node.id if isinstance(node, ast.Name) else node.attr] += 1
    return sorted(name for name in bases & own if names[name] == 1)


def main() -> int:
    """Check all files, print the problems and return the exit code."""
    found: list[str] = []
    graph: dict[str, set[str]] = {module: set() for module in FILES}
    named: dict[str, set[str]] = {module: set() for module in FILES}
    inside: dict[tuple[str, int], Import] = {}
    for module in FILES:
        for entry in imports_of(module):
            if not entry.inside_function and entry.target != module:
                named[module].add(entry.target)
            if entry.for_types:
                continue
            if entry.inside_function:
                inside[module, entry.line] = entry
            else:
                graph[module].update(_loaded(module, entry.target))
            layer, used = layer_of(module), layer_of(entry.target)
            where = f"{FILES[module].relative_to(ROOT.parent)}:{entry.line}"
            unknown = {layer, used} - set(LAYERS)
            if unknown:
                found.append(f"{where}: {unknown.pop()} is not in LAYERS of tools/check_imports.py")
            elif not entry.inside_function and LAYERS.index(used) > LAYERS.index(layer):
                found.append(f"{where}: {layer} imports {used}, which stands above it")
            if entry.inside_function and not entry.reason:
                found.append(f"{where}: an import inside a function needs a comment that says why")
    found += [f"circle of {len(group)} files: {', '.join(group)}" for group in circles(graph)]
    typed = [name for group in circles(named) for name in group]
    if len(typed) > MOST_IN_TYPED_CIRCLES:
        found.append(
            f"{len(typed)} files are in circles of imports, those for type checkers included, at "
            f"most {MOST_IN_TYPED_CIRCLES} may be: {', '.join(typed)}"
        )
    sources = (path for path in FILES.values() if path.suffix == ".py")
    found += [
        f"{name} is a base of one class only; fold it into the class, or use an object"
        for name in lone_mixins(ast.parse(path.read_text()) for path in sources)
    ]
    if len(inside) > MOST_INSIDE_FUNCTIONS:
        found.append(
            f"{len(inside)} imports inside functions, at most {MOST_INSIDE_FUNCTIONS} are allowed: "
            + ", ".join(f"{module}:{line}" for module, line in inside)
        )
    summary = f"{len(FILES)} modules, no circle, {len(inside)} imports inside functions, "
    summary += f"{len(typed)} files in circles for type checkers"
    print("\n".join(found) if found else summary)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
