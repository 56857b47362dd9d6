"""One process of ``new_shapes.py``: a ResNet-18 that sees many input shapes, mxlite or MXNet.

Runs on Python 3.8 too, because MXNet 1.9.1 needs it. Prints one line of JSON.
"""

import argparse
import gc
import importlib
import json
import os
import sys
import tempfile
import time

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_mib():
    """Return the memory of this process that is in RAM now."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE / 2**20


def make_call(mx, vision, use, shape):
    """Return a function from an input to the network's output as a NumPy array."""
    net = vision.resnet18_v1()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    if use == "block":
        return lambda x: net(x).asnumpy()
    net(mx.nd.zeros(shape)).wait_to_read()
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "resnet18")
        net.export(prefix)
        if use == "symbol_block":
            files = prefix + "-symbol.json", ["data"], prefix + "-0000.params"
            imported = mx.gluon.SymbolBlock.imports(*files)
            imported.hybridize()
            return lambda x: imported(x).asnumpy()
        symbol, arguments, states = mx.model.load_checkpoint(prefix, 0)
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", shape)], for_training=False)
    module.set_params(arguments, states)

    def run(x):
        module.forward(mx.io.DataBatch([x]), is_train=False)
        return module.get_outputs()[0].asnumpy()

    return run


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", required=True)
    parser.add_argument("--use", choices=("block", "symbol_block", "module"), required=True)
    parser.add_argument("--sizes", type=int, nargs=3, required=True, metavar=("FIRST", "END", "BY"))
    parser.add_argument("--batches", type=int, required=True)
    args = parser.parse_args()
    mx = importlib.import_module(args.package)
    vision = importlib.import_module(args.package + ".gluon.model_zoo.vision")
    sizes = range(*args.sizes)
    largest = max((1, 3, sizes[-1], sizes[-1]), (args.batches, 3, sizes[0], sizes[0]), key=_count)
    shapes = [(1, 3, size, size) for size in sizes]
    shapes += [(batch, 3, sizes[0], sizes[0]) for batch in range(2, args.batches + 1)]
    mx.random.seed(0)
    call = make_call(mx, vision, args.use, largest)
    for _ in range(2):
        call(mx.nd.zeros(largest))
    begin = resident_mib()
    first, second, growth = [], [], []
    for shape in shapes:
        x = mx.nd.random.uniform(shape=shape)
        x.wait_to_read()
        for seconds in (first, second):
            start = time.perf_counter()
            call(x)
            seconds.append(time.perf_counter() - start)
        growth.append(resident_mib() - begin)
    json.dump({"first": first, "second": second, "start": begin, "growth": growth}, sys.stdout)


def _count(shape):
    total = 1
    for extent in shape:
        total *= extent
    return total


if __name__ == "__main__":
    main()
