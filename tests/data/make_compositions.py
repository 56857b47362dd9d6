"""Write compositions_1.9.1.json: what symbols MXNet 1.9.1 makes of calls that leave inputs out.

Run in an environment with MXNet 1.9.1 (Python 3.8, NumPy below 1.24):

    python tests/data/make_compositions.py tests/data/compositions_1.9.1.json

Each operator that has inputs is called without any, with values for its required parameters, then
with each choice of its boolean and enumerated parameters. The file has ``{operator: [case, ...]}``;
a case is the parameters and the names of arguments, auxiliary states and outputs, without the name
of the node. Calls that give the names of an earlier case are left out, and so are operators that
refuse such calls (updates of weights).
"""

import ctypes
import json
import re
import sys

import mxnet as mx
from mxnet.base import _LIB, check_call, py_str

# Parts of other operators; operators of numpy mode; operators that end the process if they get no
# inputs; operators that are functions in mxlite, or have other defaults or other input names there.
SKIPPED = (
    "_backward", "_contrib_backward", "_np", "_sg_", "_CachedOp", "_FusedOp", "_TensorRT",
    "_Native", "_NDArray", "_cond", "_foreach", "_while_loop", "_contrib_dgl", "multi_", "_multi",
    "preloaded_", "_contrib_multi", "_contrib_preloaded", "reset_arrays",
    "_contrib_boolean_mask", "_contrib_edge_id", "_contrib_getnnz", "_cv", "_imdecode",
    "_histogram", "_ravel", "_unravel", "amp_multicast", "_contrib_quantized_concat",
)  # fmt: skip
FILLERS = {
    "int": "2", "long": "2", "float": "1.0", "double": "1.0", "float or None": "1.0",
    "boolean": "True", "string": "x", "Shape(tuple)": "(2, 2)", "tuple of <float>": "(1.0, 1.0)",
    "tuple of <int>": "(1, 1)", "int or None": "2",
}  # fmt: skip
# Values for parameters that 1.9.1 wrongly describes as optional, or whose first choice it refuses.
NEEDED = {
    "Cast": {"dtype": "float16"},
    "cast": {"dtype": "float16"},
    "amp_cast": {"dtype": "float16"},
    "Pooling": {"kernel": "(2, 2)"},
    "Pooling_v1": {"kernel": "(2, 2)"},
}
# Parameter values with which only 1.9.1 has one output more.
LEFT_OUT = [("act_type", "rrelu")]
ARRAY = ("NDArray", "Symbol")


def operators():
    """Yield each operator's name, the parameter that counts its inputs, and all (name, type)."""
    size, handles = ctypes.c_uint(), ctypes.POINTER(ctypes.c_void_p)()
    check_call(_LIB.MXSymbolListAtomicSymbolCreators(ctypes.byref(size), ctypes.byref(handles)))
    for i in range(size.value):
        name, text, counted, result = (ctypes.c_char_p() for _ in range(4))
        names, types, texts = (ctypes.POINTER(ctypes.c_char_p)() for _ in range(3))
        count = ctypes.c_uint()
        fields = (name, text, count, names, types, texts, counted, result)
        handle = ctypes.c_void_p(handles[i])
        check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, *map(ctypes.byref, fields)))
        listed = [(py_str(names[k]), py_str(types[k])) for k in range(count.value)]
        yield py_str(name.value), py_str(counted.value), listed


def choices(kind):
    """Return the values of a boolean or enumerated parameter."""
    if kind.startswith("boolean"):
        return ["True", "False"]
    found = re.match(r"\{(.*?)\}", kind)
    return [value.strip("' ") for value in found[1].split(",")] if found else []


def value_for(kind):
    """Return a value for a required parameter."""
    plain = re.split(r"[ ,]+(?:\(non|required)", kind)[0]
    return (choices(kind) or [FILLERS.get(plain, plain)])[0]


def composed(name, params):
    """Return the names that a call without inputs has, or None if it is refused."""
    function = vars(mx.sym._internal).get(name) or vars(mx.sym).get(name)
    for module in ("contrib", "image", "linalg", "sparse"):
        prefix = f"_{module}_"
        if name.startswith(prefix):
            function = vars(getattr(mx.sym, module)).get(name[len(prefix) :], function)
    try:
        symbol = function(name="n", **params)
    except (mx.MXNetError, TypeError, ValueError):
        return None
    listed = symbol.list_arguments(), symbol.list_auxiliary_states(), symbol.list_outputs()
    return [[text[len("n_") :] for text in texts] for texts in listed]


def cases_of(name, counted, listed):
    """Return the cases of one operator, none if it refuses calls without inputs."""
    given = {counted: "2"} if counted else {}
    for key, kind in listed:
        if "required" in kind and key != counted and not kind.startswith(ARRAY):
            given[key] = value_for(kind)
    given.update(NEEDED.get(name, {}))
    cases = []
    variants = [
        {key: value}
        for key, kind in listed
        for value in choices(kind)
        if (key, value) not in LEFT_OUT
    ]
    for params in [given] + [{**given, **variant} for variant in variants]:
        found = composed(name, params)
        if found is None and not cases:
            return []
        if found is not None and found not in [case[1:] for case in cases]:
            cases.append([params, *found])
    return cases


def main():
    """Write the file."""
    table = {}
    for name, counted, listed in operators():
        takes_inputs = any(kind.startswith(ARRAY) for _, kind in listed)
        if takes_inputs and not name.startswith(SKIPPED):
            table[name] = cases_of(name, counted, listed)
    rows = [
        f"{json.dumps(name)}: {json.dumps(cases)}" for name, cases in sorted(table.items()) if cases
    ]
    with open(sys.argv[1], "w") as file:
        file.write("{\n" + ",\n".join(rows) + "\n}\n")
    print(len(rows), "operators; refused:", [name for name, cases in table.items() if not cases])


main()
