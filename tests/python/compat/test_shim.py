"""The packages of the folder shim: ``import mxnet`` in programs without changes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from processes import PACKAGE, run_python

SHIM = Path(__file__).resolve().parents[3] / "shim"


def python(*arguments: str, cwd: Path, paths: tuple[Path, ...], status: int = 0) -> str:
    """Run python with folders in its search path, as site-packages would be."""
    paths = {"PYTHONPATH": os.pathsep.join([*map(str, paths), PACKAGE])}
    done = run_python(*arguments, cwd=cwd, environment=paths, status=status)
    return done.stderr if status else done.stdout


@pytest.fixture
def shims() -> tuple[Path, ...]:
    return SHIM / "mxnet", SHIM / "horovod"


def test_plain_pytest_imports_mxnet_and_horovod(tmp_path, shims):
    (tmp_path / "test_net.py").write_text(
        "import mxnet as mx\nimport horovod.mxnet as hvd\nfrom mxnet.gluon import nn\n"
        "import mxlite, mxlite.horovod\n"
        "def test_same_objects():\n"
        "    assert nn.Dense is mxlite.gluon.nn.Dense and mx.__version__ == '1.9.1'\n"
        "    assert hvd.DistributedTrainer is mxlite.horovod.DistributedTrainer\n"
    )
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path, paths=shims)
    assert "1 passed" in done


def test_subprocesses_and_spawned_processes_find_mxnet(tmp_path, shims):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, os, subprocess, sys\n"
        "def work(n):\n"
        "    import mxnet as mx\n"
        "    return float(mx.nd.ones(n).sum().asscalar())\n"
        "if __name__ == '__main__':\n"
        "    import mxnet\n"
        "    assert 'compat' not in os.environ['PYTHONPATH']\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, [3]))\n"
        "    code = 'import mxnet.gluon.rnn as r; print(r.__name__)'\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)\n"
    )
    done = python(str(script), cwd=tmp_path, paths=shims)
    assert done.split() == ["[3.0]", "mxlite.gluon.rnn"]


def test_horovod_alone(tmp_path, shims):
    code = "import horovod; print(horovod.__version__, horovod.run.__module__)"
    done = python("-c", code, cwd=tmp_path, paths=shims[1:])
    assert done.split()[0] == "0.28.1" and "mxlite" in done


def test_files_of_the_real_mxnet_in_the_same_folder_are_refused(tmp_path, shims):
    shutil.copytree(shims[0] / "mxnet", tmp_path / "mxnet")
    (tmp_path / "mxnet" / "libmxnet.so").touch()
    info = tmp_path / "mxnet_cu112-1.9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mxnet-cu112\nVersion: 1.9.1\n")
    error = python("-c", "import mxnet", cwd=tmp_path, paths=(tmp_path,), status=1)
    assert "ImportError: mxnet: " in error
    assert "pip uninstall mxnet mxnet-cu112" in error


def test_stubs_name_every_public_module(tmp_path):
    folder = tmp_path / "shim" / "mxnet"
    shutil.copytree(SHIM / "mxnet", folder)
    (tmp_path / "python").symlink_to(Path(PACKAGE))
    command = ["setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "lib")]
    python(*command, cwd=folder, paths=())
    lib = tmp_path / "lib" / "mxnet"
    assert (lib / "gluon" / "nn" / "__init__.pyi").read_text() == "from mxlite.gluon.nn import *\n"
    assert (lib / "__init__.pyi").read_text() == "from mxlite import *\n"
    assert (lib / "py.typed").exists() and (lib / "__init__.py").exists()
    assert not (lib / "_core.pyi").exists() and not (lib / "compat").exists()
