"""One network on one system: builds it once, then times iterations on request.

Started by run.py in the system's own environment (Python 3.8 and later, no mxlite needed). Requests
come as JSON lines on standard input, answers are JSON lines on standard output:

    {"do": "prepare"}          build and warm up       -> {"version", "seconds", "output", "norm"}
    {"do": "time", "count": N} run N iterations        -> {"seconds": [...]}
    {"do": "memory"}           peak resident set       -> {"mib"}
"""

import argparse
import importlib
import json
import os
import resource
import sys
import time
import traceback


def _measure(clock, run, count):
    now = time.process_time if clock == "cpu" else time.perf_counter
    seconds = []
    for _ in range(count):
        begin = now()
        run()
        seconds.append(now() - begin)
    return seconds


def _prepare(options, spec, system):
    import numpy as np

    begin = time.perf_counter()
    run = system.prepare(spec, options.variant, options.dtype, options.batch)
    run()
    build_seconds = time.perf_counter() - begin
    for _ in range(2):
        run()
    answer = {"version": system.version(), "build_seconds": build_seconds}
    if not spec["random"]:
        output = np.asarray(run(fetch=True), np.float32)
        answer["output"] = [float(value) for value in output[-1][:16]]
        answer["norm"] = float(np.linalg.norm(output[-1].astype(np.float64)))
    answer["seconds"] = _measure(options.clock, run, 3)
    return run, answer


def main():
    """Answer requests until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "gpu"])
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--spec", required=True, help="layer list written by run.py")
    parser.add_argument("--write-onnx", help="write this file and end")
    options = parser.parse_args()
    with open(options.spec, encoding="utf-8") as file:
        spec = json.load(file)
    if options.write_onnx:
        importlib.import_module("to_onnx").write(spec, options.batch, options.write_onnx)
        return
    importlib.import_module("peer_values").DEVICE = options.device
    # Writes answers to a copy of file descriptor 1, because libraries print to descriptor 1.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":
                system = importlib.import_module("on_" + options.system)
                run, answer = _prepare(options, spec, system)
            elif request["do"] == "time":
                if request["count"] > 1:  # iterations of seconds need no warm caches
                    run()
                answer = {"seconds": _measure(options.clock, run, request["count"])}
            else:
                usage = resource.getrusage(resource.RUSAGE_SELF)
                answer = {"mib": usage.ru_maxrss / 1024}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
