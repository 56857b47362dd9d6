"""Imports in fresh processes: plain ones patch nothing, the shim's packages are found."""

from __future__ import annotations

import os
import shutil
import textwrap
from pathlib import Path

import pytest
from processes import PACKAGE, run_python


def run_plain(code, folder):
    """Run code without the alias and return what it printed."""
    return run_python("-c", textwrap.dedent(code), cwd=folder).stdout


def test_import_mxlite_patches_nothing(tmp_path):
    printed = run_plain(
        """
        import builtins
        import importlib
        import sys
        from types import ModuleType

        import numpy as np

        MODULES = (np, builtins, importlib)

        def names():  # but submodules, which imports add
            return [
                {k: id(v) for k, v in vars(m).items() if not isinstance(v, ModuleType)}
                for m in MODULES
            ]

        finders, hooks, before = list(sys.meta_path), list(sys.path_hooks), names()
        import mxlite as mx
        import mxlite.gluon.contrib.estimator

        print(finders == sys.meta_path, hooks == sys.path_hooks, before == names())
        print("mxlite.compat" in sys.modules)
        # Packages define their own __getattr__; other modules get none.
        print("__getattr__" in vars(mx.gluon), "__getattr__" in vars(mx.gluon.block))
        """,
        tmp_path,
    )
    assert printed.split() == ["True", "True", "True", "False", "True", "False"]


def test_install_adds_names_to_numpy_and_replaces_none(tmp_path):
    printed = run_plain(
        """
        import numpy as np

        before = {name: id(value) for name, value in vars(np).items()}
        from mxlite import compat

        compat.install(subprocesses=False, numpy_names=False)
        print({name: id(value) for name, value in vars(np).items()} == before)
        """,
        tmp_path,
    )
    assert printed.split() == ["True"]
    printed = run_plain(
        """
        import numpy as np

        before = dict(vars(np))
        from mxlite import compat

        compat.install(subprocesses=False)
        lost = [name for name in before if vars(np).get(name) is not before[name]]
        print([name for name in lost if name != "fromstring"])
        print(np.float is float, np.asscalar(np.ones(1)))
        print(np.fromstring(b"\\x02\\x03", np.uint8).sum())
        """,
        tmp_path,
    )
    assert printed.split() == ["[]", "True", "1.0", "5"]


def test_names_of_the_c_library_are_explained_without_the_alias(tmp_path):
    printed = run_plain(
        """
        import mxlite as mx

        for name in ("MXCallbackList", "MXCallbackLis"):
            try:
                getattr(mx.base, name)
            except AttributeError as error:
                print(isinstance(error, mx.base.NotSupportedError), name in str(error))
        """,
        tmp_path,
    )
    assert printed.split() == ["True", "True", "False", "True"]


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
