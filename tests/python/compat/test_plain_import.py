"""``import mxlite`` changes nothing outside mxlite; ``compat.install`` says what it changes."""

from __future__ import annotations

import textwrap

from processes import run_python


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

        for name in ("check_call", "check_cal"):
            try:
                getattr(mx.base, name)
            except AttributeError as error:
                print(isinstance(error, mx.base.NotSupportedError), name in str(error))
        """,
        tmp_path,
    )
    assert printed.split() == ["True", "True", "False", "True"]
