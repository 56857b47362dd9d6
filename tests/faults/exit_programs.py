"""Writes programs that end in the middle of something, for exits.py.

A program is a few activities that are under way, then a way to end. Every activity uses mxlite in
another manner: queued work, iterators, loaders, threads, callbacks, exit handlers, forks.
"""

from __future__ import annotations

import random
from typing import NamedTuple

HEAD = """
import atexit, gc, os, signal, sys, threading, time
import numpy as np
import mxlite as mx
from mxlite import autograd, gluon
from mxlite.gluon import nn
FOLDER = sys.argv[1]
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
kept = []
"""

# NAME, STAGE and KEEP differ from copy to copy: STAGE is how far an iterator gets, KEEP a statement
# that decides who holds the last reference when the program ends.
ACTIVITIES = {
    "queued": """
x = mx.nd.ones((300, 300))
for _ in range(STAGE * 40):
    x = mx.nd.dot(x, x) * 0.001
KEEP(x)
""",
    "queued_network": """
net = nn.HybridSequential()
net.add(nn.Conv2D(16, 3), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(4))
net.initialize()
net.hybridize(static_alloc=bool(STAGE % 2))
trainer = gluon.Trainer(net.collect_params(), "sgd")
for _ in range(STAGE + 1):
    with autograd.record():
        loss = net(mx.nd.ones((8, 3, 32, 32))).sum()
    loss.backward()
    trainer.step(8)
KEEP(net)
""",
    "failed": """
try:
    bad = mx.nd.Custom(mx.nd.ones((2, 2)), op_type="fails")
    KEEP(bad + 1)
except mx.MXNetError:  # the naive engine raises at the call
    pass
""",
    "prefetching": """
data = mx.io.NDArrayIter(np.ones((400, 20), "float32"), np.zeros(400, "float32"), 4)
reader = mx.io.PrefetchingIter(data)
for _ in range(STAGE * 7):
    reader.next()
KEEP(reader)
""",
    "images": """
reader = mx.io.ImageRecordIter(path_imgrec=FOLDER + "/images.rec", data_shape=(3, 24, 24),
                               batch_size=4, preprocess_threads=2, shuffle=True, rand_mirror=True)
for _ in range(STAGE * 2):
    reader.next()
KEEP(reader)
""",
    "prefetched_images": """
reader = mx.io.PrefetchingIter(mx.io.ImageRecordIter(
    path_imgrec=FOLDER + "/images.rec", data_shape=(3, 24, 24), batch_size=4))
for _ in range(STAGE):
    reader.next()
KEEP(reader)
""",
    "text": """
reader = mx.io.PrefetchingIter(mx.io.CSVIter(
    data_csv=FOLDER + "/data.csv", data_shape=(3,), batch_size=2))
for _ in range(STAGE):
    reader.next()
KEEP(reader)
""",
    "loader_of_threads": """
data = gluon.data.ArrayDataset(np.ones((200, 30), "float32"), np.zeros(200, "float32"))
data = data.transform_first(lambda a: mx.nd.array(a) * 2)
reader = iter(gluon.data.DataLoader(data, 4, num_workers=2, thread_pool=True))
for _ in range(STAGE * 3):
    next(reader)
KEEP(reader)
""",
    "loader_of_processes": """
data = gluon.data.ArrayDataset(np.ones((200, 30), "float32"), np.zeros(200, "float32"))
reader = iter(gluon.data.DataLoader(data, 4, num_workers=2))
for _ in range(STAGE * 3):
    next(reader)
KEEP(reader)
""",
    "daemon_operators": """
def compute_NAME():
    a = mx.nd.ones((64, 64))
    while True:
        a = mx.nd.dot(a, a) * 0.01
        (a + 1).asnumpy()
threading.Thread(target=compute_NAME, daemon=True).start()
time.sleep(0.005 * STAGE)
""",
    "daemon_network": """
net_NAME = nn.HybridSequential()
net_NAME.add(nn.Conv2D(8, 3), nn.Activation("relu"), nn.Dense(4))
net_NAME.initialize()
net_NAME.hybridize()
def infer_NAME():
    while True:
        net_NAME(mx.nd.ones((2, 3, 24, 24))).wait_to_read()
threading.Thread(target=infer_NAME, daemon=True).start()
time.sleep(0.01 * STAGE)
""",
    "daemon_training": """
class Twice_NAME(autograd.Function):
    def forward(self, x):
        return x * 2
    def backward(self, g):
        return sum(g * i for i in range(5))
def train_NAME():
    x = mx.nd.ones((5, 5))
    x.attach_grad()
    while True:
        with autograd.record():
            y = mx.nd.Custom(Twice_NAME()(x), op_type="slow")
        y.backward()
        x.grad.asnumpy()
threading.Thread(target=train_NAME, daemon=True).start()
time.sleep(0.01 * STAGE)
""",
    "daemon_reader": """
def read_NAME():
    while True:
        for batch in mx.io.ImageRecordIter(path_imgrec=FOLDER + "/images.rec",
                                           data_shape=(3, 24, 24), batch_size=4):
            batch.data[0].asnumpy()
threading.Thread(target=read_NAME, daemon=True).start()
time.sleep(0.01 * STAGE)
""",
    "daemon_files": """
def write_NAME():
    while True:
        mx.nd.save(FOLDER + f"/{os.getpid()}-NAME", {"a": mx.nd.ones((50, 50))})
        mx.nd.load(FOLDER + f"/{os.getpid()}-NAME")
threading.Thread(target=write_NAME, daemon=True).start()
time.sleep(0.005 * STAGE)
""",
    "thread": """
def work_NAME():
    for _ in range(STAGE * 10):
        mx.nd.dot(mx.nd.ones((50, 50)), mx.nd.ones((50, 50))).asnumpy()
threading.Thread(target=work_NAME).start()
""",
    "waiting_thread": """
def wait_NAME():
    mx.nd.waitall()
    mx.nd.Custom(mx.nd.ones((2,)), op_type="slow").asnumpy()
threading.Thread(target=wait_NAME, daemon=bool(STAGE % 2)).start()
""",
    "custom": """
for _ in range(STAGE + 1):
    y = mx.nd.Custom(mx.nd.ones((4, 4)), op_type="slow")
KEEP(y)
""",
    "exit_handler": """
def at_end_NAME(a=mx.nd.ones((3, 3))):
    assert (mx.nd.dot(a, a) + 1).asnumpy()[0, 0] == 4
    assert mx.nd.Custom(a, op_type="slow").asnumpy()[0, 0] == 1
atexit.register(at_end_NAME)
""",
    "destructor": """
class Last_NAME:
    def __init__(self):
        self.a = mx.nd.ones((3, 3))
    def __del__(self, mx=mx):
        (self.a + 1).asnumpy()
object_NAME = Last_NAME()
KEEP(object_NAME)
""",
    "cycle": """
class Ring_NAME:
    pass
ring = Ring_NAME()
ring.me = ring
ring.data = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.ones((40, 2), "float32"), None, 4))
ring.function = lambda: ring
ring.array = mx.nd.ones((10, 10))
del ring
""",
    "graph": """
x = mx.nd.ones((4, 4))
x.attach_grad()
class Keep_NAME(autograd.Function):
    def forward(self, x):
        return x + 1
    def backward(self, g):
        return g
with autograd.record():
    y = mx.nd.Custom(Keep_NAME()(x), op_type="slow")
KEEP(y)
""",
    "foreign_memory": """
source = np.ones((300, 300), "float32")
a = mx.nd.from_numpy(source, zero_copy=True)
KEEP(mx.nd.dot(a, a))
KEEP(a.asnumpy())
del source, a
""",
    "profiler": """
mx.profiler.set_config(filename=FOLDER + f"/{os.getpid()}.json", profile_all=True,
                       aggregate_stats=bool(STAGE % 2))
mx.profiler.set_state("run")
mx.nd.dot(mx.nd.ones((30, 30)), mx.nd.ones((30, 30)))
""",
    "store": """
store = mx.kv.create("device" if STAGE % 2 else "local")
store.init("w", mx.nd.ones((200, 200)))
store.set_optimizer(mx.optimizer.Adam())
for _ in range(STAGE + 1):
    store.push("w", [mx.nd.ones((200, 200))] * 2)
KEEP(store)
""",
    "horovod": """
import mxlite.horovod as hvd
hvd.init()
handles = [hvd.allreduce_async(mx.nd.ones((100,)), name=f"NAME{i}") for i in range(STAGE + 1)] \\
    if hasattr(hvd, "allreduce_async") else [hvd.allreduce(mx.nd.ones((100,)), name="NAME")]
KEEP(handles)
""",
    "module": """
out = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4), name="softmax")
mod = mx.mod.Module(out)
data = mx.io.NDArrayIter(np.ones((20, 6), "float32"), np.zeros(20, "float32"), 5)
mod.bind(data.provide_data, data.provide_label)
mod.init_params()
mod.init_optimizer()
for _ in range(STAGE + 1):
    mod.forward_backward(next(data))
    mod.update()
    data.reset()
KEEP(mod)
""",
    "fork": """
pid = os.fork()
if pid == 0:
    mx.nd.ones((3, 3)).asnumpy()
    (os._exit if STAGE % 2 else sys.exit)(0)
kept.append(pid)
""",
    "signals": """
def on_alarm_NAME(*_):
    (mx.nd.ones((2, 2)) + 1).asnumpy()
signal.signal(signal.SIGALRM, on_alarm_NAME)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
mx.nd.ones((50, 50)).asnumpy()
time.sleep(0.01 * STAGE)
signal.setitimer(signal.ITIMER_REAL, 0)
""",
    "hook": """
def hook_NAME(*a):
    (mx.nd.ones((2, 2)) + 1).wait_to_read()
sys.excepthook = lambda *a: (hook_NAME(), sys.__excepthook__(*a))
threading.excepthook = hook_NAME
threading.Thread(target=lambda: 1 / 0, daemon=True).start()
""",
}

OPERATORS = """
class Slow(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        time.sleep(0.01)
        self.assign(out_data[0], req[0], in_data[0] * 1)
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])
class Fails(Slow):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise ValueError("on purpose")
def register(name, cls):
    @mx.operator.register(name)
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return cls()
register("slow", Slow)
register("fails", Fails)
"""

# Statements that end a program, and the right exit codes. A signal's number is negative.
ENDINGS: dict[str, tuple[str, set[int]]] = {
    "return": ("", {0}),
    "exit_0": ("sys.exit(0)", {0}),
    "exit_3": ("sys.exit(3)", {3}),
    "exit_text": ('sys.exit("the end")', {1}),
    "exception": ('raise ValueError("the end")', {1}),
    "os_exit": ("os._exit(4)", {4}),
    "kill": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", {-15}),
    "handled_kill": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)",
        {5},
    ),
    "interrupt": ("os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)", {-2}),
    "interrupted_wait": (
        "threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        'while True:\n    mx.nd.Custom(mx.nd.ones((2,)), op_type="slow").asnumpy()',
        {-2},
    ),
    "late_return": ("time.sleep(random_delay)", {0}),
    "late_exit": ("time.sleep(random_delay)\nsys.exit(0)", {0}),
    "collected": ("gc.collect()\nkept.clear()\ngc.collect()", {0}),
    "thread_exit": ("threading.Thread(target=lambda: sys.exit(1)).start()", {0}),
}


class Program(NamedTuple):
    """A program's text and what it may end with."""

    name: str
    text: str
    codes: set[int]
    naive: bool  # with MXLITE_ENGINE=naive


def write(seed: int) -> Program:
    """Return the program of a seed."""
    choose = random.Random(seed)
    chosen = choose.sample(list(ACTIVITIES), choose.choice([1, 1, 2, 2, 3]))
    ending = choose.choice(list(ENDINGS))
    text = HEAD + OPERATORS
    if "exit_handler" in chosen and choose.random() < 0.5:
        # This handler is registered before mxlite's, so it runs after the engine has ended.
        text = "import atexit\natexit.register(lambda: at_end_early())\n" + text
        text += "def at_end_early():\n    (mx.nd.ones((2, 2)) + 1).asnumpy()\n"
    for number, name in enumerate(chosen):
        part = ACTIVITIES[name].replace("NAME", f"n{number}")
        part = part.replace("STAGE", str(choose.choice([0, 1, 2, 4])))
        keep = choose.choice(["kept.append", "(lambda value: None)", "setattr_main"])
        text += part.replace("KEEP", keep)
    text = text.replace("setattr_main(", "setattr(sys.modules['__main__'], 'held', ")
    statement, codes = ENDINGS[ending]
    text += statement.replace("random_delay", str(choose.random() * 0.1)) + "\n"
    return Program("+".join([*chosen, ending]), text, codes, choose.random() < 0.1)
