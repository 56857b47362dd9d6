"""One case on one system: builds the training once, then runs steps on request.

Started by measure.py in the system's own environment (Python 3.8 and later, no mxlite needed), for
one or several ranks. Rank 0 reads requests as JSON lines from standard input, and passes them to
the others through files. It writes its answer as JSON to a file, too, because launchers cut long
lines, and the file's name, {"file": NAME}, to standard output:

    {"do": "prepare"}                        build, first steps -> {"version", "losses", "mib", ...}
    {"do": "time", "warm_up": W, "count": N} run W + N steps    -> {"seconds", "warm", "steps", ...}

With "clock": "cpu", the seconds are those of the process on all cores.
"""

import argparse
import importlib
import json
import os
import resource
import sys
import threading
import time
import traceback

BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Losses of the first and of this step are compared between systems before anything is timed.
GATE_STEPS = 5
POLL_SECONDS = 0.02
LEAVE_SECONDS = 5
TF32_VARIABLE = "MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION"


def rank_and_size():
    """Return the number of this process and of all processes of the job."""
    for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("RANK", "WORLD_SIZE")):
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def _end_with(folder, parent):
    """End this process when the folder or the process that started the job is gone."""
    while True:
        time.sleep(1)
        try:
            os.kill(parent, 0)
        except OSError:
            os._exit(3)
        if not os.path.isdir(folder):
            os._exit(3)


def requests(folder, rank):
    """Yield requests: of standard input on rank 0, else those that rank 0 has passed on."""
    if rank == 0:
        for number, line in enumerate(sys.stdin):
            path = os.path.join(folder, f"request-{number}")
            with open(path + ".partial", "w") as file:
                file.write(line)
            os.rename(path + ".partial", path)
            yield json.loads(line)
        open(os.path.join(folder, "end"), "w").close()
        return
    number = 0
    while True:
        path = os.path.join(folder, f"request-{number}")
        if os.path.exists(path):
            with open(path) as file:
                yield json.load(file)
            number += 1
        elif os.path.exists(os.path.join(folder, "end")):
            return
        else:
            time.sleep(POLL_SECONDS)


def run_steps(training, count, clock=time.perf_counter):
    """Run steps; return the seconds of each, by a clock, and the last loss.

    The time begins and ends when the device has nothing to do; in between, a step ends when its
    loss is known. Where calls return before their work is done, the loss is fetched after the next
    step has been queued, so that fetching does not stop the device.
    """
    training.wait()
    stamps, previous, loss = [clock()], None, None
    for _ in range(count):
        handle = training.step()
        if training.synchronous:
            previous = handle
        if previous is not None:
            loss = training.fetch(previous)
            stamps.append(clock())
        previous = None if training.synchronous else handle
    if previous is not None:
        loss = training.fetch(previous)
        training.wait()
        stamps.append(clock())
    return [end - begin for begin, end in zip(stamps, stamps[1:])], loss


def _memory(training):
    answer = {"mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    answer.update(training.device_memory())
    return answer


def _load(model, name):
    try:
        return importlib.import_module(f"dlperf.{model}.on_{name}")
    except ImportError as error:
        raise ImportError(
            f"{name} is not in {sys.executable} ({error}); benchmarks/peers/setup installs it"
        ) from error


def _prepare(spec, name, variant):
    case = spec["case"]
    if case["dtype"] == "tf32":
        os.environ[TF32_VARIABLE] = "1"
    begin = time.perf_counter()
    training = _load(case["model"], name).prepare(spec, variant)
    losses = [run_steps(training, 1)[1]]
    build_seconds = time.perf_counter() - begin
    seconds, last = run_steps(training, GATE_STEPS - 1)
    losses.append(last)
    if case["data"] == "real":
        training.read_records()
        seconds, _ = run_steps(training, 2)
    answer = {"version": training.version, "build_seconds": build_seconds, "losses": losses}
    answer["seconds"] = [sum(seconds) / len(seconds)]
    answer.update(_memory(training))
    return training, answer


def _time(training, warm_up, count, clock):
    clock = time.process_time if clock == "cpu" else time.perf_counter
    warm, _ = run_steps(training, warm_up, clock)
    begin = clock()
    steps, loss = run_steps(training, count, clock)
    seconds = (clock() - begin) / count
    answer = {"seconds": [seconds], "warm": warm, "steps": steps, "loss": loss}
    answer.update(_memory(training))
    return answer


def main():
    """Answer requests until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--spec", required=True, help="file written by measure.py")
    parser.add_argument("--exchange", required=True, help="folder that the ranks share")
    parser.add_argument("--parent", type=int, required=True, help="process that started the job")
    options = parser.parse_args()
    sys.path[:1] = [BENCHMARKS, os.path.join(BENCHMARKS, "peers")]
    watch = threading.Thread(target=_end_with, args=(options.exchange, options.parent))
    watch.daemon = True
    watch.start()
    with open(options.spec, encoding="utf-8") as file:
        spec = json.load(file)
    spec["rank"], spec["ranks"] = rank_and_size()
    importlib.import_module("peer_values").DEVICE = spec["device"]
    # Writes answers to a copy of file descriptor 1, because libraries print to descriptor 1.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    training = None
    for number, request in enumerate(requests(options.exchange, spec["rank"])):
        try:
            if request["do"] == "prepare":
                training, answer = _prepare(spec, options.system, options.variant)
            else:
                clock = request.get("clock", "wall")
                answer = _time(training, request["warm_up"], request["count"], clock)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
            if spec["ranks"] > 1 and spec["rank"] != 0:
                time.sleep(LEAVE_SECONDS)  # if the first rank has failed, too, it can say why
                os._exit(1)  # the launcher ends the job, which waits for this rank
        if spec["rank"] == 0:
            name = f"answer-{number}"
            with open(os.path.join(options.exchange, name), "w") as file:
                json.dump(answer, file)
            answers.write(json.dumps({"file": name}) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
