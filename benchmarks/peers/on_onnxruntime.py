"""The network on ONNX Runtime: all graph optimizations, CPU provider, float32 or int8.

On int8, ``all`` runs the network that mxlite quantized, ``static`` that of ``static_int8``.
"""

import os

import onnxruntime
import peer_values
import static_int8

VARIANTS = ("all", "static")


def version():
    """Return ONNX Runtime's version."""
    return onnxruntime.__version__


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch; see ``on_mxlite.prepare``."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    feed = {"data": peer_values.inputs(spec, batch)}
    model = static_int8.model(spec, batch) if variant == "static" else spec["onnx"]
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(fetch=False):
        output = session.run(None, feed)[0]
        return output if fetch else None

    return run
