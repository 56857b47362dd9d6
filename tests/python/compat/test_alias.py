"""``import mxnet`` through the alias: the same objects, in this process and in its children."""

from __future__ import annotations

import importlib
import json
import pickle
import sys
from pathlib import Path

import mxlite as mx
import pytest
from alias_runner import run, run_code
from mxlite import compat
from mxlite._dev import gen_compat


def test_modules_are_those_of_mxlite(alias):
    assert alias.nd is mx.nd and alias.gluon is mx.gluon and alias.init is mx.initializer
    for path, module in {
        "mxnet.nd": mx.nd,
        "mxnet.ndarray.random": mx.nd.random,
        "mxnet.gluon.nn.basic_layers": mx.gluon.nn.basic_layers,
        "mxnet.gluon.contrib.nn.basic_layers": mx.gluon.contrib.nn,
        "mxnet.init": mx.initializer,
        "mxnet.context": mx.context,
    }.items():
        found = importlib.import_module(path)
        assert found is module, path
        assert sys.modules[path] is module
        assert found.__spec__.name == module.__name__


def test_importing_mxnet_loads_its_submodules(tmp_path):
    text = run_code(
        """
        import sys
        assert not any(name.startswith("mxnet") for name in sys.modules)
        import mxnet
        for name in ("ndarray", "ndarray.random", "symbol", "symbol.contrib", "gluon", "optimizer",
                     "gluon.nn.basic_layers", "gluon.contrib.nn.basic_layers", "io.io", "rnn"):
            module = sys.modules["mxnet." + name]
            assert module is __import__("mxnet." + name, fromlist=["x"]), name
        assert "mxnet.gluon.hybrid_block" not in sys.modules  # 1.9.1 has no such module
        assert "mxnet.test_utils" not in sys.modules
        mxnet.test_utils.list_gpus()
        print(sys.modules["mxnet.test_utils"] is mxnet.test_utils)
        """,
        tmp_path,
    )
    assert text == "True\n"


def test_stored_names_of_classes_are_found(alias):
    """Programs store ``__module__`` and import it later, with the alias or without."""
    dense = mx.gluon.nn.Dense
    for path in (dense.__module__, dense.__module__.replace("mxlite", "mxnet")):
        assert getattr(importlib.import_module(path), dense.__name__) is dense


def test_from_imports_give_the_same_objects(alias):
    from mxnet import autograd, gluon
    from mxnet.base import MXNetError
    from mxnet.gluon import nn
    from mxnet.gluon.nn import Dense
    from mxnet.ndarray import NDArray

    assert autograd is mx.autograd and gluon is mx.gluon and nn is mx.gluon.nn
    assert Dense is mx.gluon.nn.Dense and NDArray is mx.nd.NDArray
    assert MXNetError is mx.base.MXNetError


def test_version_is_that_of_the_interface_through_the_alias_only(alias):
    assert alias.__version__ == "1.9.1"
    assert mx.__version__ != "1.9.1"
    assert "1.9.1" in repr(alias) and mx.__version__ in repr(alias)
    assert pickle.loads(pickle.dumps(alias)) is alias  # as cloudpickle sends modules


def test_the_package_of_horovod_has_what_scripts_ask_it_for(alias):
    import horovod
    import horovod.mxnet
    import horovod.runner
    import mxlite.horovod

    assert horovod.run is mxlite.horovod.run is horovod.runner.run
    assert horovod.__version__ == "0.28.1"
    with pytest.raises(AttributeError, match="'horovod' has no attribute 'torch'"):
        horovod.torch  # noqa: B018


def test_what_is_set_on_mxnet_is_set_in_mxlite(alias):
    alias.my_constant = 3
    assert mx.my_constant == 3
    del alias.my_constant
    assert not hasattr(mx, "my_constant") and not hasattr(alias, "my_constant")


def test_star_import_gives_what_mxlite_has(alias):
    names: dict[str, object] = {}
    exec("from mxnet import *", names)
    assert names["nd"] is mx.nd and names["cpu"] is mx.cpu


def test_names_mxnet_never_had_are_plain_import_errors(alias):
    with pytest.raises(ModuleNotFoundError, match="No module named 'mxnet.no_such_module'"):
        importlib.import_module("mxnet.no_such_module")
    with pytest.raises(AttributeError, match="no_such_name") as failure:
        _ = alias.no_such_name
    assert not isinstance(failure.value, NotImplementedError)
    # gluon-cv first tries this import of MXNet 2, and another one after an ImportError.
    with pytest.raises(ImportError):
        exec("from mxnet.gluon import metric")


def test_modules_of_numpy_mode_are_mxlites(alias):
    for path, module in {
        "np": mx.np,
        "numpy": mx.np,
        "numpy.linalg": mx.np.linalg,
        "numpy.multiarray": mx.np,
        "npx": mx.npx,
        "numpy_extension.random": mx.npx.random,
        "ndarray.numpy": mx.np,
        "symbol.numpy": mx.sym.np,
        "symbol.numpy_extension": mx.sym.npx,
    }.items():
        assert importlib.import_module(f"mxnet.{path}") is module
    names: dict[str, object] = {}
    exec("from mxnet import np, npx", names)
    assert names["np"] is mx.np and names["npx"] is mx.npx is mx.nd.npx


def test_names_that_are_not_built_say_so(alias):
    with pytest.raises(
        NotImplementedError, match=r"mxnet\.torch: mxlite does not have this module"
    ):
        importlib.import_module("mxnet.torch")
    with pytest.raises(mx.base.NotSupportedError, match=r"mx\.ndarray\.ndarray\.DLContext"):
        _ = mx.nd.ndarray.DLContext
    with pytest.raises(ImportError, match=r"cannot import name 'DLContext'"):
        exec("from mxnet.ndarray.ndarray import DLContext")
    with pytest.raises(
        ImportError, match=r"mx\.io\.ImageRecordIter_v1: a name of MXNet"
    ) as failure:
        exec("from mxnet.io import ImageRecordIter_v1")
    assert isinstance(failure.value, NotImplementedError)


def test_another_mxnet_that_is_imported_already_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "mxnet", type(sys)("mxnet"))
    with pytest.raises(mx.MXNetError, match="another mxnet is imported already"):
        compat.install()


def test_installing_twice_is_installing_once(alias):
    finders = list(sys.meta_path)
    compat.install()
    assert sys.meta_path == finders


def test_surface_lists_what_gluoncv_needs_at_import():
    names = gen_compat.surface()
    for module, name in [
        ("mxnet.gluon", "SymbolBlock"),
        ("mxnet.gluon.data.dataloader", "_MultiWorkerIter"),
        ("mxnet.gluon.loss", "_apply_weighting"),
        ("mxnet.gluon.contrib.nn", "SyncBatchNorm"),
        ("mxnet.metric", "check_label_shapes"),
    ]:
        assert name in names[module]


def test_a_script_runs_as_main_with_its_arguments(tmp_path):
    (tmp_path / "helper.py").write_text("VALUE = 7\n")
    text = run_code(
        """
        import json, os, pickle, sys
        import mxnet as mx
        import helper  # lies beside the script

        class Thing:
            value = helper.VALUE

        thing = pickle.loads(pickle.dumps(Thing()))
        main = sys.modules["__main__"]
        print(json.dumps([__name__, sys.argv, os.path.basename(__file__), thing.value,
                          main.Thing is Thing, mx.nd.arange(3).asnumpy().tolist()]))
        """,
        tmp_path,
        "--lr",
        "0.1",
    )
    arguments = [str(tmp_path / "script.py"), "--lr", "0.1"]
    assert json.loads(text) == ["__main__", arguments, "script.py", 7, True, [0, 1, 2]]


def test_modules_and_code_run_too(tmp_path):
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__init__.py").touch()
    code = "import sys, mxnet\nprint(__name__, sys.argv[1:], mxnet.__version__)\n"
    (package / "__main__.py").write_text(code)
    assert run("-m", "tool", "x", cwd=tmp_path).stdout == "__main__ ['x'] 1.9.1\n"
    code = "import sys, mxnet as mx; print(sys.argv, mx.nd.ones(2).sum().asscalar())"
    text = run("-c", code, "y")
    assert text.stdout == "['-c', 'y'] 2.0\n"


def test_an_uncaught_error_shows_the_frames_of_the_script_only(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("import mxnet as mx\nmx.nd.ones((2, 3)) + mx.nd.ones((4, 5))\n")
    done = run(str(script), returncode=1)
    assert done.stderr.startswith("Traceback (most recent call last):\n  File")
    assert "mxlite/compat" not in done.stderr and "runpy" not in done.stderr
    assert f'File "{script}", line 2' in done.stderr and "(2,3)" in done.stderr.replace(" ", "")


def test_exit_codes_and_bad_command_lines(tmp_path):
    script = tmp_path / "leaves.py"
    script.write_text("import sys\nsys.exit(7)\n")
    run(str(script), returncode=7)
    assert "usage" in run(returncode=2).stderr
    assert "usage" in run("--help").stdout
    assert "unknown option --foo" in run("--foo", returncode=2).stderr
    assert "can't open file" in run("nowhere.py", returncode=2).stderr
    assert "-m needs an argument" in run("-m", returncode=2).stderr


def test_child_processes_find_the_alias(tmp_path):
    text = run_code(
        """
        import multiprocessing
        import subprocess
        import sys
        import horovod

        import mxnet as mx

        def work(value):
            return float(mx.nd.array([value]).asscalar()) + (mx.__version__ == "1.9.1")

        if __name__ == "__main__":
            code = "import horovod, mxnet; print(mxnet.__version__, int(mxnet.nd.ones(3).sum()))"
            child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            print(child.stdout + child.stderr, end="")
            for method in ("spawn", "fork"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, pool.map(work, [1, 2]))
        """,
        tmp_path,
    )
    assert text.splitlines() == ["1.9.1 3", "spawn [2.0, 3.0]", "fork [2.0, 3.0]"]


def test_workers_of_a_data_loader_use_the_alias(tmp_path):
    text = run_code(
        """
        import mxnet as mx

        class Squares(mx.gluon.data.Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, i):
                import mxnet.ndarray as nd  # in the worker
                return nd.array([i]) ** 2

        loader = mx.gluon.data.DataLoader(Squares(), batch_size=3, num_workers=2)
        print([batch.reshape(-1).asnumpy().tolist() for batch in loader])
        """,
        tmp_path,
    )
    assert text == "[[0.0, 1.0, 4.0], [9.0, 16.0, 25.0]]\n"


def test_modules_beside_horovod_for_mxnet(alias):
    from horovod.common import util
    from horovod.common.exceptions import HorovodInternalError
    from horovod.common.process_sets import ProcessSet
    from horovod.runner.util.threads import in_thread

    hvd = importlib.import_module("horovod.mxnet")
    assert HorovodInternalError is hvd.elastic.HorovodInternalError
    assert ProcessSet is hvd.ProcessSet
    assert util.mpi_built(verbose=True) == hvd.mpi_built() and not util.gloo_built()
    assert util.extension_available("mxnet") and not util.extension_available("torch")
    found = []
    in_thread(found.append, args=(3,)).join()
    assert found == [3]
    in_thread(lambda: 1 / 0, silent=True).join()
    with pytest.raises(ValueError, match="must be a tuple"):
        in_thread(found.append, args=3)
    for name in ("no_such_framework", "common.no_such", "runner.util.network", "runner.js_run"):
        with pytest.raises(ModuleNotFoundError, match=f"horovod.{name}"):
            importlib.import_module(f"horovod.{name}")


def test_horovod_for_mxnet_is_mxlites(alias):
    expected = importlib.import_module("mxlite.horovod")
    assert importlib.import_module("horovod.mxnet") is expected


def test_path_of_children_names_the_shim_first(alias, monkeypatch):
    import os

    first = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    assert (Path(first) / "mxnet" / "__init__.py").is_file()


def test_numpy_aliases_of_that_time_come_back(tmp_path: Path) -> None:
    code = (
        "import numpy as np; print(np.array([1], dtype=np.float).dtype, np.int is int, "
        "np.product([2, 3]), np.asscalar(np.array([4])), np.fromstring(b'\\1\\2', np.uint8) + 1, "
        "np.fromstring('1 2', sep=' '))"
    )
    assert run_code(code, tmp_path).strip() == "float64 True 6 4 [2 3] [1. 2.]"


def test_a_class_is_no_module_but_stays_known(alias):
    """The error must not say that mxlite lacks the name."""
    with pytest.raises(ModuleNotFoundError, match="No module named 'mxlite.gluon.nn.Dense'"):
        importlib.import_module("mxlite.gluon.nn.Dense")
