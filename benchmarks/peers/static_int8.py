"""The network as ONNX Runtime's own tools quantize it, with the ranges of the batch that is timed.

Activations are uint8; weights are int8 and have a scale for each channel.
"""

import os
import tempfile

import peer_values
import to_onnx
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process


class _OneBatch(quantization.CalibrationDataReader):
    def __init__(self, feed):
        self.feeds = [feed]

    def get_next(self):
        return self.feeds.pop() if self.feeds else None


def model(spec, batch):
    """Return the contents of the quantized ONNX file.

    Parameters
    ----------
    spec : dict
        ``network``, ``size`` and ``layers``.
    batch : int
        Images.

    Returns
    -------
    bytes
        QuantizeLinear and DequantizeLinear around the layers.
    """
    feed = {"data": peer_values.inputs(spec, batch)}
    with tempfile.TemporaryDirectory() as folder:
        given, ready, target = (os.path.join(folder, name) for name in ("given", "ready", "target"))
        to_onnx.write(spec, batch, given)
        quant_pre_process(given, ready, skip_symbolic_shape=True)
        quantization.quantize_static(
            ready,
            target,
            _OneBatch(feed),
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        with open(target, "rb") as file:
            return file.read()
