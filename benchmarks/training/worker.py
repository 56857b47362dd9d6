"""Training of one network on one system: builds it once, then times steps on request.

Started by train_step.py in the system's own environment (Python 3.8 and later, no mxlite needed).
Requests come as JSON lines on standard input, answers are JSON lines on standard output:

    {"do": "prepare"}          build, a few steps -> {"version", "build_seconds", "losses", ...}
    {"do": "time", "count": N} run N steps        -> {"seconds": [per step], "cpu_seconds": [...]}
    {"do": "memory"}           peak resident set  -> {"mib"}
"""

import argparse
import importlib
import json
import os
import resource
import sys
import time
import traceback

PEERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers")
# The first step compiles, the second one allocates memory that later steps reuse.
WARM_UP_STEPS = 2


def _prepare(options, spec, system):
    begin = time.perf_counter()
    step, wait = system.prepare(spec, options.variant, options.dtype, options.batch)
    losses = [step(fetch=True)]
    build_seconds = time.perf_counter() - begin
    losses += [step(fetch=True) for _ in range(WARM_UP_STEPS - 1)]
    answer = {"version": system.version(), "build_seconds": build_seconds, "losses": losses}
    answer.update(_measure(options.clock, step, wait, 1))
    answer["mib"] = _peak_mib()
    return step, wait, answer


def _peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _measure(clock, step, wait, count):
    """Steps are queued as in a training loop; only the last one is waited for."""
    begin, cpu_begin = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    wait()
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu_begin
    return {"seconds": [(cpu if clock == "cpu" else wall) / count], "cpu_seconds": [cpu / count]}


def main():
    """Answer requests until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", default="cpu", choices=["cpu", "gpu"])
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--spec", required=True, help="layer list written by train_step.py")
    options = parser.parse_args()
    sys.path.insert(1, PEERS)
    importlib.import_module("peer_values").DEVICE = options.device
    with open(options.spec, encoding="utf-8") as file:
        spec = json.load(file)
    # Writes answers to a copy of file descriptor 1, because libraries print to descriptor 1.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    step = wait = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":
                system = importlib.import_module("train_" + options.system)
                step, wait, answer = _prepare(options, spec, system)
            elif request["do"] == "time":
                answer = _measure(options.clock, step, wait, request["count"])
            else:
                answer = {"mib": _peak_mib()}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
