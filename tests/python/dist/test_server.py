"""The parameter server with real processes: values, optimizers, rows, lost processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from conftest import PRELUDE
from server_jobs import ServerJob

BEGIN = (
    PRELUDE
    + """
import json
from mxlite import _core, nd
from mxlite.kvstore.remote_optimizer import RemoteOptimizer
def adding(**fields):
    return json.dumps(dict(operator="sgd_update", params=dict(lr=-1), **fields))
kv = _core.ServerClient()
rank, size = kv.rank, kv.num_workers
def pull(key, shape, dtype="float32"):
    return pulled(kv, key, shape, dtype).asnumpy()
"""
)


def run(body: str, **settings: object) -> str:
    """Run a job to its end and return its output; every process must succeed."""
    with ServerJob(BEGIN + body, **settings) as job:  # type: ignore[arg-type]
        codes = job.wait()
        text = job.text()
    assert not any(codes), text
    return text


LIBRARIES = """
import mxlite, sys
def loaded():
    with open("/proc/self/maps") as maps:
        return "libmxlite_server.so" in maps.read()
assert not loaded(), "import mxlite loads the parameter server"
if len(sys.argv) == 1:
    kv = mxlite.kv.create("dist_sync")
    assert loaded()
    kv.barrier()
print("done")
"""


def test_only_jobs_with_servers_load_the_server() -> None:
    code = subprocess.run(
        [sys.executable, "-c", LIBRARIES, "import only"], capture_output=True, text=True, timeout=60
    )
    assert "done" in code.stdout, code.stderr
    with ServerJob(LIBRARIES, workers=1) as job:
        assert job.wait() == [0, 0, 0], job.text()


def test_sums_of_all_types_and_sizes_are_exact() -> None:
    body = """
shapes = {"3": (2, 3), "99": (1200, 1100), "e": (0, 4), "s": (1,)}
dtypes = ["float32", "float64", "float16", "int32", "int64", "uint8"]
for dtype in dtypes:
    for name, shape in shapes.items():
        kv.init(name + dtype, nd.full(shape, rank + 7, dtype=dtype))
        assert (pull(name + dtype, shape, dtype) == 7).all()
for step in range(1, 4):
    for dtype in dtypes:
        for name, shape in shapes.items():
            kv.push(name + dtype, nd.full(shape, rank + step, dtype=dtype))
    for dtype in dtypes:
        for name, shape in shapes.items():
            got = pull(name + dtype, shape, dtype)
            assert got.dtype == np.dtype(dtype), got.dtype
            assert (got == size * step + size * (size - 1) // 2).all(), (name, dtype, got)
a, b = nd.ones((5,)) * (rank + 1), nd.zeros((5,))
kv.init("pp", b)
kv.pushpull("pp", a, b)
assert (b.asnumpy() == size * (size + 1) / 2).all()
kv.close()
"""
    run(body, workers=3, servers=2)


def test_optimizers_give_the_numbers_of_one_process() -> None:
    body = """
cases = [
    ("sgd", dict(learning_rate=0.1, momentum=0.9, wd=0.01)),
    ("nag", dict(learning_rate=0.1, momentum=0.9, wd=0.01)),
    ("adam", dict(learning_rate=0.1, wd=0.01)),
    ("adamw", dict(learning_rate=0.1, wd=0.01, epsilon=1e-3)),
    ("adamw", dict(learning_rate=0.1, wd=0.01, epsilon=1e-3, correct_bias=False)),
    ("adamax", dict(learning_rate=0.1, wd=0.01)),
    ("ftml", dict(learning_rate=0.1, clip_gradient=0.5)),
    ("adadelta", dict(wd=0.01)),
    ("adagrad", dict(learning_rate=0.1, wd=0.01)),
    ("rmsprop", dict(learning_rate=0.1, wd=0.01)),
    ("rmsprop", dict(learning_rate=0.1, centered=True)),
    ("ftrl", dict(learning_rate=0.1, wd=0.01)),
    ("signum", dict(learning_rate=0.1, momentum=0.9)),
]
rng = np.random.RandomState(1)
for number, (name, options) in enumerate(cases):
    key = str(number)
    start = nd.array(rng.randn(30, 50))
    kv.init(key, start)
    local = mx.optimizer.create(name, **options)
    kv.set_optimizer(name, RemoteOptimizer(local).text())
    weight, state = start.copy(), None
    state = local.create_state(0, weight)
    for step in range(5):
        grads = [rng.randn(30, 50).astype("float32") for _ in range(size)]
        kv.push(key, nd.array(grads[rank]))
        local.update(0, weight, nd.array(sum(grads)), state)
        np.testing.assert_allclose(
            pull(key, (30, 50)), weight.asnumpy(), rtol=2e-5, atol=1e-5, err_msg=name)
kv.close()
"""
    run(body, MXNET_KVSTORE_BIGARRAY_BOUND=1000, servers=2)


def test_half_precision_schedules_and_changes_of_numbers() -> None:
    body = """
dtypes = ("float16", "bfloat16")
kv.init(dtypes, [nd.ones((100,), dtype=dtype) for dtype in dtypes])
schedule = dict(name="FactorScheduler", base_lr=0.001, step=10, factor=0.5)
kv.set_optimizer("sgd", json.dumps(dict(
    operator="sgd_update", multi_precision=True, lr_scheduler=schedule)))
for step in range(30):
    for dtype in dtypes:
        kv.push(dtype, nd.ones((100,), dtype=dtype))
exact = nd.full((100,), 1 - size * 0.001 * 10 * (1 + 0.5 + 0.25))
for dtype in dtypes:
    got = pull(dtype, (100,), dtype)
    assert (got == exact.astype(dtype).asnumpy()).all(), got
kv.init("f", nd.zeros((4,)))
kv.set_optimizer("test", adding(rescale_grad=2))
kv.push("f", nd.ones((4,)))
assert (pull("f", (4,)) == 2 * size).all()
kv.barrier()
kv.update_optimizer(json.dumps(dict(rescale_grad=5)))
kv.barrier()
kv.push("f", nd.ones((4,)))
assert (pull("f", (4,)) == 7 * size).all()
kv.close()
"""
    run(body)


def test_async_workers_stay_within_the_bound() -> None:
    body = """
kv.set_sync(False)
kv.init("w", nd.zeros((10,)))
kv.set_optimizer("sgd", json.dumps(dict(operator="sgd_update", learning_rate=1)))
begin = time.monotonic()
for step in range(10):
    if rank == 1:
        time.sleep(0.1)
    kv.push("w", nd.ones((10,)))
    pull("w", (10,))
print("seconds", time.monotonic() - begin)
kv.barrier()
report = kv.report()["servers"][0]
assert report["sync"] is False and report["pushes"] == 10 * size, report
assert sum(report["staleness"]) == 10 * size, report
kv.barrier()
kv.close()
"""
    text = run(body, MXLITE_PS_STALENESS=1)
    seconds = [float(line.split()[1]) for line in text.splitlines() if line.startswith("seconds")]
    assert min(seconds) > 0.7, seconds  # rank 0 waits for rank 1


def test_optimizer_states_are_saved_and_loaded() -> None:
    body = """
kv.init("w", nd.zeros((40, 100)))
kv.set_optimizer("adam", json.dumps(dict(operator="adam_update", learning_rate=0.1)))
path = os.environ["STATES"]
def steps(*values):
    for value in values:
        kv.push("w", nd.full((40, 100), value))
    return pull("w", (40, 100))
before = steps(1, 2, 3)
kv.save_states(path)
kv.barrier()
after = steps(-4, 5)
kv.load_states(path)
kv.barrier()
again = steps(-4, 5)
# The same steps again: they depend on the states and the count.
np.testing.assert_allclose(again - after, after - before, rtol=1e-4)
kv.close()
"""
    run(body, MXNET_KVSTORE_BIGARRAY_BOUND=1000, servers=2, STATES="{folder}/states")


def test_wrong_calls_are_errors_at_once() -> None:
    body = """
def refused(error, words, function, *args):
    fails(lambda: (function(*args), mx.nd.waitall()), words, kind=error)
kv.init("weight", nd.zeros((2, 3)))
refused(ValueError, "did you mean 'weight'", kv.push, "weigth", nd.zeros((2, 3)))
refused(ValueError, "init must be called for key '999'", kv.pull, "999", nd.zeros((2, 3)))
refused(ValueError, "shape must be (2, 3), got (3, 2)", kv.push, "weight", nd.zeros((3, 2)))
refused(TypeError, "float32, got float64", kv.push, "weight", nd.zeros((2, 3), dtype="float64"))
refused(ValueError, "initialized only once", kv.init, "weight", nd.zeros((2, 3)))
refused(NotImplementedError, "'adan_update' must be an operator", kv.set_optimizer, "adan",
        '{"operator": "adan_update"}')
refused(ValueError, "did you mean 'momentum'", kv.set_optimizer, "sgd",
        '{"operator": "sgd_mom_update", "params": {"momentun": 1}}')
refused(ValueError, "did you mean 'params'", kv.set_optimizer, "sgd", '{"param": 1}')
refused(ValueError, "must be valid JSON", kv.set_optimizer, "sgd", "cos\\nsystem")
refused(ValueError, "would send an optimizer as code", kv.command, 0, "pickle")
refused(IndexError, "row ids must be in [0, 1], got 2", lambda: kv.pull_rows(
    "weight", nd.array([2], dtype="int64"), nd.zeros((1, 3))))
kv.push("weight", nd.ones((2, 3)))
assert (pull("weight", (2, 3)) == size).all()
kv.close()
refused(mx.MXNetError, "has been closed", kv.push, "weight", nd.zeros((2, 3)))
"""
    run(body)


FOREVER = """
kv.init("weight", nd.zeros((1000,)))
for step in range(10**9):
    kv.push("weight", nd.ones((1000,)))
    try:
        pull("weight", (1000,))
    except mx.MXNetError as error:
        print("raised", error, flush=True)
        sys.exit(3)
    if step == 5:
        print("goes", flush=True)
"""


@pytest.mark.parametrize("victim", ["worker", "server", "scheduler"])
def test_a_killed_process_fails_the_others_by_name(victim: str) -> None:
    with ServerJob(BEGIN + FOREVER, workers=3, PS_HEARTBEAT_INTERVAL=0.1) as job:
        job.wait_for("goes")
        time.sleep(0.4)  # some heartbeats, which contain the worker's operation
        lost = {"worker": job.workers[1], "server": job.servers[0], "scheduler": job.scheduler}
        lost[victim].kill()
        killed = time.monotonic()
        job.wait(20)
        assert time.monotonic() - killed < 15
        for worker in job.workers:
            if worker is not lost[victim]:
                assert worker.process.returncode == 3, job.text()
                assert "raised" in worker.text(), job.text()
                named = "worker " if victim == "worker" else f"{victim}"
                assert named in worker.text() and "is lost" in worker.text(), job.text()
                if victim == "worker":
                    assert "its last operation: push of 'weight'" in worker.text()


def test_a_stopped_worker_is_found_out_by_its_silence() -> None:
    with ServerJob(BEGIN + FOREVER, PS_HEARTBEAT_INTERVAL=0.2, PS_HEARTBEAT_TIMEOUT=1) as job:
        job.wait_for("goes")
        job.workers[1].process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        job.workers[0].process.wait(20)
        assert time.monotonic() - stopped < 15
        assert "no heartbeat for 1 s" in job.workers[0].text(), job.text()


def test_a_worker_that_does_nothing_is_named_after_the_deadline() -> None:
    body = FOREVER.replace("if step == 5:", "if step == 5 and rank == 1: time.sleep(30)\n    if 0:")
    with ServerJob(BEGIN + body, MXLITE_PS_TIMEOUT=6) as job:
        job.workers[0].process.wait(40)
        text = job.workers[0].text()
        assert "key 'weight', step 7: no push of worker 1 within 6 s" in text, job.text()


def test_a_missing_scheduler_is_an_error_in_time() -> None:
    with ServerJob(BEGIN, MXLITE_PS_TIMEOUT=1) as job:
        job.scheduler.kill()
        codes = job.wait(20)
        assert all(codes[1:])
        assert "DMLC_PS_ROOT_PORT) within 1 s: " in job.workers[0].text(), job.text()


def test_processes_without_a_token_refuse_to_start() -> None:
    with ServerJob(BEGIN, MXLITE_PS_TOKEN="", MXLITE_PS_TIMEOUT=5) as job:
        assert all(job.wait(20)), job.text()
        assert "environment variable MXLITE_PS_TOKEN is missing" in job.scheduler.text(), job.text()
        assert "MXLITE_INSECURE_SERVER=1" in job.workers[0].text(), job.text()
    remote = {"MXLITE_PS_TOKEN": "", "MXLITE_INSECURE_SERVER": 1, "DMLC_PS_ROOT_URI": "192.0.2.1"}
    with ServerJob(BEGIN, MXLITE_PS_TIMEOUT=5, **remote) as job:
        assert all(job.wait(20)), job.text()
        assert "only 127.0.0.1 and localhost may be used without a token" in job.scheduler.text()


def test_a_job_on_loopback_may_ask_to_run_without_a_token() -> None:
    with ServerJob(BEGIN, MXLITE_PS_TOKEN="", MXLITE_INSECURE_SERVER=1) as job:
        assert not any(job.wait()), job.text()


def test_profiles_stay_below_the_servers_folder(tmp_path, monkeypatch) -> None:
    from mxlite.profiler import serving

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MXLITE_PS_PROFILE_DIR", raising=False)
    assert serving._own_name(1, "traces/a.json") == str(tmp_path / "traces" / "rank1_a.json")
    for outside in ("../a.json", "/etc/a.json", "traces/../../a.json"):
        with pytest.raises(ValueError, match="must be a path below"):
            serving._own_name(1, outside)
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(ValueError, match="working directory"):
        serving._own_name(1, "link/tmp/a.json")
