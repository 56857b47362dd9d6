"""Modules that are imported when a program first uses their names, each in a fresh process."""

from __future__ import annotations

import pickle
from textwrap import dedent

import mxlite as mx
import pytest
from processes import run_program

# Each program uses a name, or a function that a higher module provides, before anything else.
PROGRAMS = {
    "arrays of numpy mode": """
        array = mx.nd.ones((2, 2)).as_np_ndarray()
        assert type(array) is mx.np.ndarray and (array == 1).all().item()
    """,
    "pickles of arrays of numpy mode": """
        import pickle
        assert type(pickle.loads({pickled})) is mx.np.ndarray
    """,
    "numpy mode": """
        mx.util.set_np()
        assert type(mx.gluon.data.ArrayDataset(mx.np.ones((2, 2)))[0]) is mx.np.ndarray
    """,
    "files with operators of numpy mode": """
        symbol = mx.sym.load_json({json})
        assert symbol.list_arguments() == ["data"]
        found = symbol.bind(mx.cpu(), dict(data=mx.nd.array([[1, 2], [3, 4]]))).forward()[0]
        assert found.asnumpy().tolist() == [1, 4]
    """,
    "recorded computations": """
        x = mx.nd.ones((2,))
        x.attach_grad()
        with mx.autograd.record():
            y = x * 2
        assert len(mx.autograd.get_symbol(y).list_arguments()) == 1
    """,
    "executors": """
        graph = mx.nd.CachedOp(mx.sym.var("x") * 2)
        assert graph(mx.nd.ones((2,))).asnumpy().tolist() == [2, 2]
    """,
    "custom operators": """
        assert callable(mx.nd.Custom) and mx.nd.Custom is mx.operator.Custom
    """,
    "modules for 1.x": """
        import mxlite.model
        assert "mxlite.module" not in sys.modules
        assert "FeedForward" in dir(mxlite.model) and mx.model is mxlite.model
        from mxlite.rnn import LSTMCell
        assert LSTMCell is mx.modules_1x.rnn.LSTMCell
    """,
    "every public name": """
        from mxlite import *
        assert set(mx.__all__) <= set(globals())
    """,
    "several threads": """
        import threading
        found = []
        threads = [
            threading.Thread(target=lambda: found.append((mx.gluon.nn.Dense, mx.rnn.LSTMCell)))
            for _ in range(8)
        ]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert found == 8 * [(mx.gluon.nn.Dense, mx.rnn.LSTMCell)]
    """,
}


def test_importing_mxlite_imports_what_arrays_need():
    """A module that this list lacks needs a reason: the time to import mxlite is on its pages."""
    printed = run_program(
        """
        import sys
        import mxlite
        found = {name.split(".")[1] for name, module in sys.modules.items()
                 if name.startswith("mxlite.") and type(module) is type(sys)}
        print(*sorted(name for name in found if name[0] != "_"))
        """
    ).stdout
    assert printed.split() == [
        "attribute", "autograd", "base", "base_names", "c_library", "context", "device", "error",
        "modules_1x", "name", "ndarray", "numpy_mode", "operator", "profiler", "random", "util",
    ]  # fmt: skip


@pytest.mark.parametrize("use", PROGRAMS)
def test_a_name_works_when_it_is_the_first_that_is_used(use):
    json = mx.sym.np.diagonal(mx.sym.var("data").as_np_ndarray()).tojson()
    text = PROGRAMS[use].replace("{json}", repr(json))
    text = text.replace("{pickled}", repr(pickle.dumps(mx.np.ones((2,)))))
    run_program("import sys\nimport mxlite as mx\n" + dedent(text))
