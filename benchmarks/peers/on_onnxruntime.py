"""The network on ONNX Runtime: all graph optimizations, CPU provider (float32 only)."""

import os

import onnxruntime
import peer_values

VARIANTS = ("all",)


def version():
    """Return ONNX Runtime's version."""
    return onnxruntime.__version__


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch; see ``on_mxlite.prepare``."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(
        spec["onnx"], options, providers=["CPUExecutionProvider"]
    )
    feed = {"data": peer_values.inputs(spec, batch)}

    def run(fetch=False):
        output = session.run(None, feed)[0]
        return output if fetch else None

    return run
