"""Write numpy_symbols_1.9.1.json: graphs that MXNet 1.9.1 makes of calls of mx.sym.np, and values.

Run in an environment with MXNet 1.9.1 (Python 3.8, NumPy below 1.24):

    python tests/data/make_numpy_symbols.py tests/data/numpy_symbols_1.9.1.json

The file has the inputs by name, 1.9.1's names of operators and functions, and for each call the
nodes (operator, name, attributes, inputs), the outputs of the graph, and their values: null where
1.9.1 cannot run the graph. The calls and the inputs are those that the file has already; N is
mx.sym.np, P mx.sym.npx, R and L are N.random and N.linalg, and I has the operators of numpy mode.
"""

import ctypes
import json
import sys

import mxnet as mx
import mxnet.symbol.numpy._internal as internal
import numpy as onp
from mxnet import np, npx
from mxnet.base import _LIB, check_call, py_str


def operator_names():
    count, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    found = (py_str(names[i]) for i in range(count.value))
    return sorted(n for n in found if n.startswith("_np") and "backward" not in n)


def public_names():
    found = {}
    for path in ("np", "np.random", "np.linalg", "npx", "npx.random", "npx.image"):
        module = mx.sym
        for part in path.split("."):
            module = getattr(module, part)
        found[path] = sorted(module.__all__)
    return found


def numbers(array):
    array = array.asnumpy()
    values = [v if array.dtype == bool else round(float(v), 5) for v in array.ravel().tolist()]
    texts = [v if onp.isfinite(v) else str(v) for v in values]
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": texts}


def graph_of(call, names, values):
    with mx.name.NameManager():
        symbol = eval(call, names)
    if isinstance(symbol, (list, tuple)):
        symbol = mx.sym.Group(list(symbol))
    graph = json.loads(symbol.tojson())
    nodes = [
        [n["op"], n["name"], n.get("attrs", {}), [entry[:2] for entry in n["inputs"]]]
        for n in graph["nodes"]
    ]
    try:
        arrays = {n: np.array(values[n], dtype=values[n].dtype) for n in symbol.list_inputs()}
        outputs = [numbers(output) for output in symbol.bind(mx.cpu(), arrays).forward()]
    except mx.MXNetError:
        outputs = None
    heads = [head[:2] for head in graph["heads"]]
    return {"call": call, "nodes": nodes, "heads": heads, "outputs": outputs}


def main(path):
    npx.set_np()
    with open(path) as file:
        old = json.load(file)
    values = {
        name: onp.array(v["values"], v["dtype"]).reshape(v["shape"])
        for name, v in old["values"].items()
    }
    symbols = {n: mx.sym.var(n, dtype=v.dtype).as_np_ndarray() for n, v in values.items()}
    spaces = {"N": mx.sym.np, "P": mx.sym.npx, "I": internal, "onp": onp}
    names = {**symbols, **spaces, "R": mx.sym.np.random, "L": mx.sym.np.linalg}
    with open(path, "w") as file:
        rows = (f"{json.dumps(n)}: {json.dumps(v)}" for n, v in old["values"].items())
        file.write('{"values": {\n' + ",\n".join(rows) + "\n},\n")
        file.write('"operators": ' + json.dumps(operator_names()) + ",\n")
        file.write('"names": ' + json.dumps(public_names()) + ',\n"graphs": [\n')
        graphs = [json.dumps(graph_of(g["call"], names, values)) for g in old["graphs"]]
        file.write(",\n".join(graphs) + "\n]}\n")


main(sys.argv[1])
