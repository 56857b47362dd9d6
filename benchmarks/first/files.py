"""Files of a network for every system: symbol and parameters, ONNX, a PyTorch module, the input.

python files.py mxlite NETWORK FOLDER     # mxlite's environment: all other files
python files.py torch NETWORK FOLDER      # PyTorch's environment: reads what mxlite wrote
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))

# A word-level language model, as in MXNet's examples: words, features, layers, words of a sequence.
WORDS, UNITS, LAYERS, LENGTH = 10000, 650, 2, 35


def write_mxlite(network: str, folder: Path) -> None:
    """Write the files that mxlite can write, and the layer list for PyTorch."""
    import layers
    import mxlite as mx
    import mxlite.onnx
    import networks
    import on_mxlite
    import peer_values

    if network == "lstm":
        data = np.random.RandomState(0).randint(0, WORDS, (LENGTH, 1)).astype(np.int32)
        net = mx.gluon.nn.HybridSequential(prefix="")
        net.add(
            mx.gluon.nn.Embedding(WORDS, UNITS),
            mx.gluon.rnn.LSTM(UNITS, LAYERS, input_size=UNITS),
            mx.gluon.nn.Dense(WORDS, flatten=False, in_units=UNITS),
        )
        net.initialize(mx.init.Uniform(0.1))
        arrays = {name: p.data().asnumpy() for name, p in net._collect_params_with_prefix().items()}
        np.savez(folder / "lstm.npz", **arrays)
    else:
        net = networks.build(network)
        net.infer_shape(networks.example(network))
        spec = {"network": network, "size": networks.input_size(network), "random": False}
        spec["layers"] = layers.layer_list(net)
        (folder / "spec.json").write_text(json.dumps(spec))
        data = peer_values.inputs(spec, 1)
        net = on_mxlite._filled(spec, mx.nd.array(data, dtype=data.dtype))
    np.save(folder / "data.npy", data)
    data.tofile(folder / "data.bin")
    array = mx.nd.array(data, dtype=data.dtype)
    net.hybridize()
    net(array).wait_to_read()
    net.export(str(folder / "net"), 0)
    mxlite.onnx.export(net, array, path=str(folder / "net.onnx"), check=False)


def lstm_module(folder: Path) -> "torch.nn.Module":  # noqa: F821 - imported below
    """Return the language model with the weights that mxlite wrote."""
    import first_modules
    import torch

    net = first_modules.LanguageModel(WORDS, UNITS, LAYERS)
    arrays = np.load(folder / "lstm.npz")
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(torch.from_numpy(arrays[first_modules.mxnet_name(name)]))
    return net


def write_torch(network: str, folder: Path) -> None:
    """Write the module of PyTorch."""
    import on_torch
    import torch

    if network == "lstm":
        net = lstm_module(folder)
    else:
        spec = json.loads((folder / "spec.json").read_text())
        net = on_torch.network(spec)
        on_torch.set_values(net, spec)
        net = net.to(memory_format=torch.channels_last)
    torch.save(net.eval(), folder / "net.pt")


if __name__ == "__main__":
    {"mxlite": write_mxlite, "torch": write_torch}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
