"""The command ``mxlite``, also ``python -m mxlite``: runs tools; by default, runs ``info``.

``mxlite COMMAND --help`` shows the options of a command.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np

import mxlite as mx

from . import _core

# For each command: the module that defines ``main``, and the purpose.
_COMMANDS = {
    "info": ("mxlite.__main__", "describe this installation and machine, for a bug report"),
    "run": ("mxlite.run.launch", "start a job of several processes"),
    "launch": ("mxlite.tools.launch", "start a job as launch.py of MXNet 1.x does"),
    "im2rec": ("mxlite.tools.im2rec", "make image lists and record files"),
    "rec2idx": ("mxlite.tools.rec2idx", "make the index of a record file"),
    "recinfo": ("mxlite.tools.recinfo", "describe and check a record file"),
    "convert": ("mxlite.convert.__main__", "convert a file of weights"),
    "score": ("mxlite.tools.score", "measure the inference speed of a network"),
    "trace": ("mxlite.tools.trace", "summarize a profile"),
    "parse_log": ("mxlite.tools.parse_log", "make a table of a training log"),
}
_OPTIONAL = "mpi4py onnx onnxruntime safetensors ml_dtypes ray fsspec matplotlib tqdm mxnet horovod"
_VARIABLES = ("MXLITE_", "MXNET_", "OMP_", "GOMP_", "ONEDNN_", "DMLC_", "CUDA_", "NCCL_")


def _processor() -> str:
    """Return the model of the processor, as Linux names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpus() -> str:
    """Return the names of the GPUs, or why none can be used."""
    names = [_core.gpu_properties(number)["name"] for number in range(mx.num_gpus())]
    return ", ".join(names) or f"none: {_core.why_no_gpu()}"


def _packages() -> str:
    """Return the versions of the optional packages that are installed."""
    found = []
    for name in _OPTIONAL.split():
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found) or "none"


def _variables() -> str:
    """Return the environment variables that influence mxlite; the values of secrets are hidden."""
    shown = [
        f"{name}={'(hidden)' if 'TOKEN' in name else value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES)
    ]
    return " ".join(shown) or "none"


def report() -> str:
    """Return a description of the installation and the machine, one fact on a line."""
    features = ", ".join(f.name for f in mx.runtime.feature_list() if f.enabled)
    threads, cores = mx.runtime.thread_count(), len(os.sched_getaffinity(0))
    facts = {
        "mxlite": f"{mx.__version__} in {Path(mx.__file__).parent}",
        "Python": f"{platform.python_version()} ({sys.executable})",
        "NumPy": np.__version__,
        "system": f"{platform.platform()}, {' '.join(platform.libc_ver())}",
        "processor": f"{_processor()}, {cores} cores, {threads} threads per operator",
        "GPUs": _gpus(),
        "features": features,
        "packages": _packages(),
        "variables": _variables(),
    }
    return "\n".join(f"{name + ':':<12}{value}" for name, value in facts.items())


def _usage() -> str:
    width = max(map(len, _COMMANDS)) + 2
    rows = "\n".join(f"  {name:<{width}}{what}" for name, (_, what) in _COMMANDS.items())
    return f"usage: mxlite [COMMAND] [OPTIONS]\n\ncommands (default: info):\n{rows}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of this process; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["info"]
    command, options = words[0], words[1:]
    if command in ("-h", "--help"):
        print(_usage())
        return 0
    if command == "--version":
        print(f"mxlite {mx.__version__}")
        return 0
    if command not in _COMMANDS:
        print(f"{_usage()}\n\nmxlite: there is no command {command!r}", file=sys.stderr)
        return 2
    if command == "info":
        if options:
            print(f"mxlite info: expected no options, got {' '.join(options)}", file=sys.stderr)
            return 2
        print(report())
        print("commands:   mxlite --help; documentation: help(mxlite.gluon), docs of the sources")
        return 0
    return int(importlib.import_module(_COMMANDS[command][0]).main(options) or 0)


if __name__ == "__main__":
    sys.exit(main())
