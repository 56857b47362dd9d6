"""Adds a stub for each public module of mxlite, so that type checkers resolve ``mxnet``."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SOURCE = Path(__file__).resolve().parents[2] / "python" / "mxlite"
NOT_IN_MXNET = {"checkpoint", "compat", "convert", "horovod", "run", "tools"}


def public_modules():
    """Yield the paths of mxlite's public modules, relative to the package, without suffix."""
    for path in sorted(SOURCE.rglob("*.py*")):
        relative = path.relative_to(SOURCE)
        parts = [p for p in relative.with_suffix("").parts if p != "__init__"]
        hidden = any(p.startswith("_") for p in parts) or NOT_IN_MXNET.intersection(parts[:1])
        if path.suffix in (".py", ".pyi") and not hidden:
            yield relative.with_suffix("")


class BuildWithStubs(build_py):
    """Writes the stubs beside the copied package."""

    def run(self):
        """Build as usual, then write ``mxnet/**/*.pyi`` and ``py.typed``."""
        super().run()
        target = Path(self.build_lib) / "mxnet"
        for path in public_modules():
            module = ".".join(["mxlite", *(p for p in path.parts if p != "__init__")])
            stub = target / path.with_suffix(".pyi")
            stub.parent.mkdir(parents=True, exist_ok=True)
            stub.write_text(f"from {module} import *\n")
        (target / "py.typed").touch()


setup(cmdclass={"build_py": BuildWithStubs})
