"""The network on OpenVINO: CPU plug-in, latency hint, float32 or bfloat16 by precision hint."""

import os

import openvino
import peer_values

VARIANTS = ("latency",)


def version():
    """Return OpenVINO's version."""
    return openvino.__version__


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch; see ``on_mxlite.prepare``."""
    core = openvino.Core()
    compiled = core.compile_model(
        spec["onnx"],
        "CPU",
        {
            "INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"]),
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bfloat16" else "f32",
        },
    )
    request = compiled.create_infer_request()
    data = openvino.Tensor(peer_values.inputs(spec, batch))
    request.set_input_tensor(data)

    def run(fetch=False):
        request.infer()
        return request.get_output_tensor().data.copy() if fetch else None

    return run
