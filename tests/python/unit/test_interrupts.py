"""Ctrl-C is answered during every wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest

# Half a second is the aim; a loaded machine needs more. Each wait would last a minute.
SECONDS = 15


def answer_interrupts() -> None:
    """Let the started program receive SIGINT; a shell's background jobs ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


HEAD = """
import os, signal, sys, threading, time
import numpy as np
import mxlite as mx
from mxlite import gluon
FOLDER = sys.argv[1]
class Sleep(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        began.set()
        for _ in range(600):
            if released.wait(0.1):
                break
        self.assign(out_data[0], req[0], in_data[0])
@mx.operator.register("sleep")
class SleepProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Sleep()
began, released = threading.Event(), threading.Event()
def slow():
    return mx.nd.Custom(mx.nd.ones((2, 2)), op_type="sleep")
def interrupt():
    began.wait()
    time.sleep(0.3)
    print("sent", time.time(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)
class SlowData:
    def __len__(self):
        return 100
    def __getitem__(self, i):
        began.set()
        time.sleep(60)
class SlowIter(mx.io.NDArrayIter):
    def next(self):
        began.set()
        released.wait(60)
        raise StopIteration
threading.Thread(target=interrupt, daemon=True).start()
try:
"""

TAIL = """
except KeyboardInterrupt:
    print("answered", time.time(), flush=True)
    released.set()
else:
    print("not interrupted")
"""

WAITS = {
    "waitall": "slow(); mx.nd.waitall()",
    "wait_to_read": "slow().wait_to_read()",
    "wait_to_write": "a = slow(); a.wait_to_write()",
    "asnumpy": "slow().asnumpy()",
    "dlpack": "slow().__dlpack__()",
    "write": "a = slow(); a[:] = np.ones((2, 2))",
    "full_queue": "a = slow()\n    while True: a = a + mx.nd.dot(a, a)",
    "prefetching": "mx.io.PrefetchingIter(SlowIter(np.ones((4, 2)), None, 2)).next()",
    "loader": "next(iter(gluon.data.DataLoader(SlowData(), 2)))",
    "loader_of_processes": (
        "began.set(); next(iter(gluon.data.DataLoader(SlowData(), 2, num_workers=1)))"
    ),
    "store": (
        "s = mx.kv.create('local'); s.init(1, mx.nd.ones((2, 2))); s.push(1, slow())\n"
        "    s.pull(1, out=mx.nd.ones((2, 2))); mx.nd.waitall()"
    ),
    "fit": (
        "o = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Custom(mx.sym.var('data'),"
        " op_type='sleep'), num_hidden=2), name='softmax')\n"
        "    mx.mod.Module(o).fit(mx.io.NDArrayIter(np.ones((4, 2)), np.zeros(4), 2), num_epoch=9)"
    ),
    "record_iterator": (
        "open(FOLDER + '/a.rec', 'wb').truncate(200 << 30); began.set()\n"
        "    mx.io.ImageRecordIter(path_imgrec=FOLDER + '/a.rec', data_shape=(3, 4, 4),"
        " batch_size=1)"
    ),
    "record_reader": (
        "open(FOLDER + '/a.rec', 'wb').truncate(200 << 30); began.set()\n"
        "    mx.recordio.MXRecordIO(FOLDER + '/a.rec', 'r').read()"
    ),
    "server_store": (
        "os.environ.update(DMLC_ROLE='worker', DMLC_PS_ROOT_URI='127.0.0.1', DMLC_NUM_SERVER='1',"
        " DMLC_PS_ROOT_PORT='9', DMLC_NUM_WORKER='1', MXLITE_PS_TOKEN='x')\n"
        "    began.set(); mx.kv.create('dist_sync')"
    ),
}


@pytest.mark.parametrize("name", WAITS)
def test_wait_is_interrupted(name: str, tmp_path: Path) -> None:
    text = f"{HEAD}    {WAITS[name]}\n{TAIL}"
    result = subprocess.run(
        [sys.executable, "-c", text, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=answer_interrupts,
    )
    words = result.stdout.split()
    assert "answered" in words, result.stdout + result.stderr
    took = float(words[words.index("answered") + 1]) - float(words[words.index("sent") + 1])
    assert took < SECONDS, f"{took} s, {result.stderr}"


def interrupted(*arguments: object, until: str) -> tuple[str, int]:
    """Start Python, send SIGINT after the text and return its output and exit code in time."""
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=answer_interrupts,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    seen = ""
    while until not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    time.sleep(0.3)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    seen += process.communicate(timeout=60)[0]
    assert time.monotonic() - begin < SECONDS, seen
    return seen, process.returncode


def test_interrupted_program_does_not_finish_its_queue() -> None:
    """Work that has not begun when Ctrl-C ends the program is left out."""
    text = HEAD.split("threading.Thread")[0] + (
        "class Step(mx.operator.CustomOp):\n"
        "    def forward(self, is_train, req, in_data, out_data, aux):\n"
        "        time.sleep(0.5); self.assign(out_data[0], req[0], in_data[0])\n"
        "@mx.operator.register('step')\n"
        "class StepProp(mx.operator.CustomOpProp):\n"
        "    def create_operator(self, ctx, shapes, dtypes): return Step()\n"
        "a = mx.nd.ones((2,))\n"
        "for _ in range(200): a = mx.nd.Custom(a, op_type='step')\n"
        "print('queued', flush=True)\n"
        "a.asnumpy()\n"
    )
    seen, code = interrupted("-c", text, ".", until="queued")
    assert code == -signal.SIGINT, seen


@pytest.mark.parametrize("caught", [False, True])
def test_interrupted_program_does_not_wait_for_threads_of_a_loader(caught: bool) -> None:
    text = (
        "import time\n"
        "from mxlite import gluon\n"
        "class Slow:\n"
        "    def __len__(self): return 8\n"
        "    def __getitem__(self, i): print('reading', flush=True); time.sleep(600)\n"
        "try: next(iter(gluon.data.DataLoader(Slow(), 2, num_workers=2, thread_pool=True)))\n"
        f"except KeyboardInterrupt:\n    if not {caught}: raise\n"
    )
    seen, code = interrupted("-c", text, until="reading")
    assert code == (0 if caught else -signal.SIGINT), seen


def test_im2rec_is_interrupted(tmp_path: Path) -> None:
    image = np.random.RandomState(0).randint(0, 255, (400, 400, 3)).astype("uint8")
    (tmp_path / "images").mkdir()
    first = tmp_path / "images" / "0.jpg"
    first.write_bytes(mx.recordio.unpack(mx.recordio.pack_img((0, 0, 0, 0), image))[1])
    for i in range(1, 3000):
        os.link(first, tmp_path / "images" / f"{i}.jpg")
    tool = [sys.executable, "-m", "mxlite.tools.im2rec", str(tmp_path / "a"), str(tmp_path)]
    subprocess.run([*tool, "--list", "--recursive"], check=True, capture_output=True)
    text = (
        "import sys\nfrom mxlite.tools import im2rec\nprint('begins', flush=True)\n"
        "sys.exit(im2rec.main(sys.argv[1:]))"
    )
    seen, code = interrupted("-c", text, *tool[3:], "--resize", "200", until="begins")
    assert code != 0, seen


def test_download_is_interrupted() -> None:
    text = (
        "import socket, mxlite as mx\n"
        "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
        "print('waits', flush=True)\n"
        "mx.gluon.utils.download(f'http://127.0.0.1:{s.getsockname()[1]}/a', path='/dev/null',"
        " overwrite=True)"
    )
    seen, code = interrupted("-c", text, until="waits")
    assert code == -signal.SIGINT, seen


def test_launched_job_is_interrupted() -> None:
    from mxlite.run.launch import find_mpirun

    if not mx._core.mpi_built() or find_mpirun() is None:
        pytest.skip("needs Open MPI")
    text = (
        "import mxlite as mx, mxlite.horovod as hvd\n"
        "hvd.init()\n"
        "print('runs', flush=True)\n"
        "if hvd.rank(): import time; time.sleep(100)\n"
        "hvd.allreduce(mx.nd.ones((3,)), name='a').asnumpy()\n"
    )
    command = ["-m", "mxlite.run", "-np", "2", sys.executable, "-c", text]
    seen, code = interrupted(*command, until="runs")
    assert code != 0, seen
