"""Programs that end in the middle of something end with their own exit code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import pytest
from processes import run_program

ROOT = Path(__file__).resolve().parents[3]

# Functions of Python's C interface that neither run Python code nor wait for the GIL.
HARMLESS = re.compile(
    r"Py(Arg|Bytes|ByteArray|CMethod|Callable|Capsule|Dict|Exception|Frame|Index|InstanceMethod|"
    r"InterpreterState|List|Mem|Method|Module|StaticMethod|ThreadState|Thread|Tuple|Type|Unicode"
    r"|Weakref|Sys)_\w+"
    r"|Py(Buffer_\w+|Eval_(SaveThread|GetBuiltins)|GILState_(Check|Release|GetThisThreadState)"
    r"|Float_FromDouble|Long_(From\w+|AsDouble|AsUnsignedLong(Long)?)|Mapping_Check|Number_Check"
    r"|MemoryView_FromMemory|ModuleDef_Init|Sequence_Check|Slice_AdjustIndices)"
    r"|PyErr_(Clear|ExceptionMatches|Fetch|Format|GivenExceptionMatches|Occurred|Restore|SetObject"
    r"|SetString|GetRaisedException|SetRaisedException)"
    r"|PyObject_(CallFunctionObjArgs|CallMethod|CheckBuffer|ClearWeakRefs|Free|GC_UnTrack"
    r"|GenericGetDict|GenericSetDict|Malloc)"
    r"|Py_(AtExit|GetVersion|IsInitialized|IsFinalizing)|_Py(Object_GetDictPtr|Object_New"
    r"|ThreadState_UncheckedGet|Type_Lookup|_IsFinalizing)"
)


def run(text: str, **options: Any) -> str:
    return run_program(text, PYTHONFAULTHANDLER="1", **options).stdout


def test_programs_that_end_in_the_middle() -> None:
    """Forty programs of tests/faults/exits.py end with their own exit codes."""
    script = ROOT / "tests" / "faults" / "exits.py"
    result = subprocess.run(
        [sys.executable, script, "--runs=40", "--busy=0", "--first=100000"],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stdout + result.stderr


DAEMON = """
import threading, time
import mxlite as mx
from mxlite import autograd
class Twice(autograd.Function):
    def forward(self, x):
        return x * 2
    def backward(self, g):
        return sum(g * i for i in range(20))
def work():
    x = mx.nd.ones((40, 40))
    x.attach_grad()
    while True:
        with autograd.record():
            y = mx.nd.dot(Twice()(x), x)
        y.backward()
        x.grad.asnumpy()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
"""


def test_daemon_threads_do_not_abort_the_program() -> None:
    for _ in range(4):
        run(DAEMON)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_calls_into_python_park_at_exit() -> None:
    """Every function of Python that may wait for the GIL is replaced: see cpp/python/gil.h."""
    library = mx._core.__file__
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    used = {line.split()[-1] for line in listed.splitlines()}
    used = {
        name
        for name in used
        if re.match("_?Py", name) and not re.search("_Type$|Exc_|Struct$", name)
    }
    source = (ROOT / "cpp" / "python" / "gil.cc").read_text()
    parks = set(re.findall(r"^PARKS\([^,]+, (\w+),", source, re.MULTILINE))
    assert len(parks) > 30
    unknown = {name for name in used - parks if not HARMLESS.fullmatch(name)}
    assert not unknown, f"may these wait for the GIL or run Python? {sorted(unknown)}"


def test_first_asnumpy_inside_a_signal_handler() -> None:
    """Names are not looked up under a lock for which a signal handler would wait."""
    out = run(
        """
import signal
import mxlite as mx
a = mx.nd.ones((2, 2))
count = 0
def handler(*_):
    global count
    count += 1
    a.asnumpy()
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
while count < 50:
    a.asnumpy()
signal.setitimer(signal.ITIMER_REAL, 0)
print(count >= 50)
"""
    )
    assert out.strip() == "True"


def test_import_looks_up_numpy() -> None:
    """The first asnumpy imports nothing: a handler or __del__ may call it during an import."""
    out = run(
        """
import builtins, sys
import mxlite as mx
a = mx.nd.ones((2, 2))
before, real = set(sys.modules), builtins.__import__
found = []
def note(name, *rest, **more):
    found.append(name)
    return real(name, *rest, **more)
builtins.__import__ = note
a.asnumpy()
print([name for name in found if name.startswith("numpy")])
"""
    )
    assert out.strip() == "[]"


def test_exit_handlers_may_use_everything() -> None:
    out = run(
        """
import atexit
atexit.register(lambda: print((mx.nd.ones((2,)) + 2).asnumpy()))  # runs after mxlite's own
import mxlite as mx
data = mx.io.NDArrayIter(mx.nd.ones((20, 2)), None, 2)
reader = mx.io.PrefetchingIter(data)
reader.next()
atexit.register(lambda: print(reader.next().data[0].shape))
"""
    )
    assert out.split("\n")[:2] == ["(2, 2)", "[3. 3.]"]


def test_readers_of_other_threads_go_on_after_main() -> None:
    """A thread that Python waits for keeps its iterators until it ends."""
    out = run(
        """
import threading, time
import numpy as np
import mxlite as mx
reader = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.ones((20, 2)), None, 2))
def work():
    time.sleep(0.3)
    print(len(list(reader)))
threading.Thread(target=work).start()
"""
    )
    assert out.strip() == "10"


def test_reader_that_never_answers_does_not_hold_the_exit() -> None:
    run(
        """
import threading
import numpy as np
import mxlite as mx
class Stuck(mx.io.NDArrayIter):
    def next(self):
        threading.Event().wait()
reader = mx.io.PrefetchingIter(Stuck(np.ones((20, 2)), None, 2))
""",
        seconds=60,
    )


SUBINTERPRETER = """
import importlib, sys
name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
interpreters = importlib.import_module(name)
"""


def test_a_program_with_a_subinterpreter_works_and_ends() -> None:
    out = run(
        SUBINTERPRETER
        + """
import mxlite as mx
interpreters.create()
x = mx.nd.ones((200, 200))
for _ in range(20):
    x = mx.nd.dot(x, x) * 1e-3
print(x.shape, float(x.asnumpy()[0, 0]) >= 0)
iterator = mx.io.PrefetchingIter(mx.io.NDArrayIter(mx.nd.ones((8, 2)), batch_size=2))
next(iterator)
"""
    )
    assert out.strip() == "(200, 200) True"


def test_import_in_a_subinterpreter_is_an_error(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = f"""
try:
    import mxlite
except ImportError as error:
    with open({str(said)!r}, "w") as file:
        file.write(str(error))
"""
    run(SUBINTERPRETER + f"interpreters.run_string(interpreters.create(), {code!r})\n", seconds=60)
    assert "cannot be imported in a subinterpreter" in said.read_text()
