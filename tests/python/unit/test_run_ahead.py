"""Operators that wait for their turn hold no memory for their results."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from processes import run_python

LOOPS = Path(__file__).resolve().parents[3] / "benchmarks" / "overhead" / "run_ahead_loops.py"


@pytest.mark.parametrize(
    ("loop", "most"), [("chain", 60), ("unread", 30), ("training", 60), ("recurrent", 60)]
)
def test_loops_that_never_wait_stay_small(loop: str, most: float) -> None:
    result = run_python(LOOPS, "mxlite", loop, timeout=300)
    assert float(result.stdout) < most  # MiB; MXNet 1.9.1: 1 to 14


def test_memory_that_runs_out_later_names_the_operator() -> None:
    program = """
        import mxlite as mx
        from mxlite import nd

        x = nd.ones((1000, 1000))
        nd.waitall()
        y = nd.broadcast_to(x.reshape((1, 1000, 1000)), (100, 1000, 1000))  # does not raise
        z = y + 1
        for _ in range(2):
            for array in (y, z):
                try:
                    array.wait_to_read()
                except MemoryError as error:
                    assert isinstance(error, mx.MXNetError), error
                    text = str(error)
                else:
                    raise SystemExit("no error")
                assert "out of memory on cpu: 400000000 bytes requested" in text, text
                assert "limit 20000000" in text, text
                assert "for the output float32(100, 1000, 1000) of broadcast_to" in text, text
                assert "called at <string>:7" in text, text
        assert (x + 1).asnumpy().sum() == 2e6  # the process continues
    """
    run_python("-c", textwrap.dedent(program), MXLITE_CPU_MEMORY_LIMIT=20000000)
