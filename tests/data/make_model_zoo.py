"""Write model_zoo_1.9.1.json.gz: what MXNet 1.9.1's model zoo and GluonCV's v1b networks are.

Run in an environment with MXNet 1.9.1 (Python 3.8, NumPy below 1.24); with GluonCV 0.8 beside it
the v1b networks are included. For each network: parameter names, shapes, ``repr``, and the first
outputs for parameters and input that :func:`parameter` and :func:`image` compute anywhere.

    python tests/data/make_model_zoo.py tests/data/model_zoo_1.9.1.json.gz
"""

import gzip
import json
import sys
import zlib

import numpy as np


def parameter(name, shape):
    """Values of a parameter from its dotted name: the same on every machine."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    values = random.uniform(-1, 1, size=shape)
    kind = name.rsplit(".", 1)[-1]
    if kind == "weight":
        # Keeps the size of the activations about constant through the layers.
        values *= np.sqrt(6.0 / np.prod(shape[1:]))
    elif kind in ("gamma", "running_var"):
        values = 1 + 0.2 * values
    else:
        values *= 0.1
    return values.astype(np.float32)


def image(size):
    """One image, float32 of shape ``(1, 3, size, size)``."""
    return np.random.RandomState(size).uniform(-1, 1, (1, 3, size, size)).astype(np.float32)


def image_size(name):
    """Smallest size that is cheap to run; networks without global pooling need their own."""
    if name == "inceptionv3":
        return 299
    return 64 if name.startswith(("resnet", "mobilenet")) else 224


def describe(mx, name, net):
    """Facts about one network of MXNet 1.9.1."""
    net.initialize()
    size = image_size(name)
    data = mx.nd.array(image(size))
    net.infer_shape(data)
    parameters = net._collect_params_with_prefix()
    for key, value in parameters.items():
        value._finish_deferred_init()
        value.set_data(mx.nd.array(parameter(key, value.shape)))
    net.hybridize()
    output = net(data).asnumpy()[0]
    return {
        "prefix": net.prefix,
        "names": list(parameters),
        "prefixed": [value.name for value in parameters.values()],
        "shapes": [list(value.shape) for value in parameters.values()],
        "repr": repr(net),
        "size": size,
        "outputs": [float(f"{value:.7g}") for value in output[:8]],
        "norm": float(np.linalg.norm(output)),
    }


def main(path):
    """Write the facts to ``path``."""
    import mxnet as mx
    from mxnet.gluon.model_zoo import model_store, vision

    makers = {name: vision.get_model for name in model_store._model_sha1}
    try:
        from gluoncv.model_zoo import get_model
    except ImportError:
        print("GluonCV is missing: no v1b networks")
    else:
        makers.update({f"resnet{depth}_v1b": get_model for depth in (18, 34, 50, 101, 152)})
    facts = {}
    for name, make in sorted(makers.items()):
        with mx.name.NameManager():
            facts[name] = describe(mx, name, make(name))
        print(name, len(facts[name]["names"]), facts[name]["norm"])
    text = json.dumps({"mxnet": mx.__version__, "networks": facts}, separators=(",", ":"))
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main(sys.argv[1])
