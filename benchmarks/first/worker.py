"""One fresh process: imports a system, builds a network from files, calls it twice.

Writes one JSON line: seconds of each part by the wall clock and of CPU time, and the beginning of
the output. Runs in the system's own environment (Python 3.8 and later, no mxlite needed).

    python worker.py SYSTEM FOLDER BEGIN THREADS    # BEGIN: time.time() at the process's start
"""

import importlib
import json
import sys
import time
from pathlib import Path

PARTS = ("import", "build", "first call", "second call")


def gluon(module, folder):
    """Return a function for mxlite or MXNet."""
    mx = importlib.import_module(module)

    def build(data):
        files = (str(folder / "net-symbol.json"), ["data"], str(folder / "net-0000.params"))
        net = mx.gluon.SymbolBlock.imports(*files)
        net.hybridize(static_alloc=True, static_shape=True)
        return lambda: net(mx.nd.array(data, dtype=data.dtype)).asnumpy()

    return build


def onnxruntime(folder, threads):
    """Return a function for ONNX Runtime, which takes all of its optimizations by default."""
    import onnxruntime

    def build(data):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(folder / "net.onnx"), options)
        name = session.get_inputs()[0].name
        return lambda: session.run(None, {name: data})[0]

    return build


def openvino(folder, threads):
    """Return a function for OpenVINO in float32."""
    import openvino

    def build(data):
        options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        options["INFERENCE_PRECISION_HINT"] = "f32"
        net = openvino.Core().compile_model(str(folder / "net.onnx"), "CPU", options)
        request = net.create_infer_request()

        def call():
            request.infer([data])
            return request.get_output_tensor().data.copy()

        return call

    return build


def torch(folder, threads, compiles):
    """Return a function for PyTorch."""
    import torch

    def build(data):
        torch.set_num_threads(threads)
        net = torch.load(folder / "net.pt", weights_only=False)
        if compiles:
            net = torch.compile(net)

        def call():
            with torch.no_grad():
                return net(torch.from_numpy(data)).numpy()

        return call

    return build


def main():
    """Measure the four parts."""
    system, folder, begin = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    threads = int(sys.argv[4])
    marks = [(begin, 0.0)]

    def mark():
        marks.append((time.time(), time.process_time()))

    import numpy as np

    make = {
        "mxlite": lambda: gluon("mxlite", folder),
        "mxnet": lambda: gluon("mxnet", folder),
        "onnxruntime": lambda: onnxruntime(folder, threads),
        "openvino": lambda: openvino(folder, threads),
        "torch:eager": lambda: torch(folder, threads, False),
        "torch:compile": lambda: torch(folder, threads, True),
    }[system]()
    mark()
    data = np.load(folder / "data.npy")
    call = make(data)
    mark()
    output = call()
    mark()
    call()
    mark()
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(marks, marks[1:])]
    answer = {name: {"wall": wall, "cpu": cpu} for name, (wall, cpu) in zip(PARTS, steps)}
    answer["output"] = [float(value) for value in output.ravel()[:16]]
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
