"""Write the examples of operators: ``python -m mxlite._dev.gen_examples``.

Run in the folder of the sources. ``ndarray/op_examples.txt`` gets an example of each operator that
programs call: a test case ("row") from ``tests/python/unit/op_cases``, and the result of the call.
``help`` and the site show the examples.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import mxlite

from ..ndarray.signatures import EXAMPLES
from . import schema

__all__ = ["examples", "program", "rows_by_operator"]

_QUANTIZED = [
    "x, x_low, x_high = mx.nd.contrib.quantize_v2(mx.nd.array([-1.0, 0.5]), out_type='int8')",
    "y, y_low, y_high = mx.nd.contrib.quantize_v2(mx.nd.array([0.25, 2.0]), out_type='int8')",
]
# Examples of operators whose test cases do not show what the operators do.
_STATEMENTS = {
    "reset_arrays": [
        "data0, data1 = mx.nd.ones(2), mx.nd.ones(3)",
        "mx.nd.reset_arrays(data0, data1, num_arrays=2)",
        "result = data1",
    ],
    "_contrib_quantized_conv": [
        "data = mx.nd.random.uniform(0, 1, shape=(1, 2, 4, 4))",
        "weight = mx.nd.random.uniform(-1, 1, shape=(3, 2, 3, 3))",
        "data, low, high = mx.nd.contrib.quantize_v2(data, out_type='uint8')",
        "weight, weight_low, weight_high = mx.nd.contrib.quantize_v2(weight, out_type='int8')",
        "result = mx.nd.contrib.quantized_conv(data, weight, low, high, weight_low, weight_high, "
        "kernel=(3, 3), num_filter=3, no_bias=True)",
    ],
    "_contrib_quantized_pooling": [
        "data = mx.nd.random.uniform(0, 1, shape=(1, 2, 4, 4))",
        "data, low, high = mx.nd.contrib.quantize_v2(data, out_type='uint8')",
        "result = mx.nd.contrib.quantized_pooling(data, low, high, kernel=(2, 2), stride=(2, 2))",
    ],
    "_contrib_quantized_concat": [
        *_QUANTIZED,
        "result = mx.nd.contrib.quantized_concat(x, y, x_low, x_high, y_low, y_high, dim=0)",
    ],
    "_contrib_quantized_elemwise_add": [
        *_QUANTIZED,
        "result = mx.nd.contrib.quantized_elemwise_add(x, y, x_low, x_high, y_low, y_high)",
    ],
    "_contrib_quantized_elemwise_mul": [
        *_QUANTIZED,
        "result = mx.nd.contrib.quantized_elemwise_mul(x, y, x_low, x_high, y_low, y_high)",
    ],
    "_contrib_PSROIPooling": [
        "data = mx.nd.random.uniform(0, 1, shape=(1, 8, 6, 6))",
        "rois = mx.nd.array([[0, 0, 0, 5, 5]])",
        "result = mx.nd.contrib.PSROIPooling(data, rois, spatial_scale=1.0, output_dim=2, "
        "pooled_size=2)",
    ],
    "linalg_potrf": [
        "A = mx.nd.array([[4.0, 2.0], [2.0, 3.0]])",
        "result = mx.nd.linalg_potrf(A)",
    ],
    "_contrib_DeformablePSROIPooling": [
        "data = mx.nd.random.uniform(0, 1, shape=(1, 8, 6, 6))",
        "rois = mx.nd.array([[0, 0, 0, 5, 5]])",
        "trans = mx.nd.zeros((1, 2, 2, 2))",
        "result = mx.nd.contrib.DeformablePSROIPooling(data, rois, trans, spatial_scale=1.0, "
        "output_dim=2, group_size=2, pooled_size=2, part_size=2)",
    ],
    "_contrib_dequantize": [
        "x, low, high = mx.nd.contrib.quantize_v2(mx.nd.array([-1.0, 0.25, 0.5]), out_type='int8')",
        "result = mx.nd.contrib.dequantize(x, low, high)",
    ],
}
_NEEDS_A_JOB = {"_contrib_send", "_contrib_recv"}
_SHOWN_VALUES = 24  # an example shows only arrays of at most this size


def rows_by_operator(folder: Path) -> dict[str, list[Any]]:
    """Return the rows of the operator tests, in ``tests/python/unit``, by the operator's name."""
    sys.path.insert(0, str(folder.resolve()))
    cases = importlib.import_module("op_cases").all_cases()
    names = {name: op["name"] for name, op in schema.all_by_name().items()}
    rows = defaultdict(list)
    for case in cases:
        rows[names[case.name]].append(case)
    return rows


def _literal(array: Any) -> str:
    """Return a NumPy array as a call that makes an array of the package."""
    dtype = "float32" if array.dtype.kind == "f" else str(array.dtype)
    suffix = "" if dtype == "float32" else f", dtype={dtype!r}"
    if array.size <= _SHOWN_VALUES:
        values = np.round(array, 2) if array.dtype.kind == "f" else array
        return f"mx.nd.array({values.tolist()}{suffix})".replace("nan", "float('nan')")
    if array.dtype.kind == "f":
        low, high = (round(float(x), 1) for x in (np.nanmin(array), np.nanmax(array)))
        return f"mx.nd.random.uniform({low}, {high}, shape={array.shape})"
    return (
        f"mx.nd.random.randint({array.min()}, {int(array.max()) + 1}, shape={array.shape}{suffix})"
    )


def program(op: schema.Op, case: Any) -> list[str]:
    """Return the statements of a row: the inputs, then the call."""
    if op["variadic"]:
        names = [f"{op['inputs'][0]}{i}" for i in range(len(case.inputs))]
    else:
        names = list(op["inputs"][: len(case.inputs)])
    lines = [f"{name} = {_literal(array)}" for name, array in zip(names, case.inputs)]
    params = [f"{name}={value!r}" for name, value in case.params.items()]
    return [*lines, f"result = mx.nd.{schema.path_of(op)}({', '.join(names + params)})"]


def _shown(result: Any) -> list[str]:
    """Return the lines of an example that show a small result's values, or else its shape."""
    if isinstance(result, list):
        return [">>> [array.shape for array in result]", str([tuple(a.shape) for a in result])]
    if result.size <= _SHOWN_VALUES and result.stype == "default":
        with np.printoptions(precision=4, suppress=True, floatmode="maxprec"):
            lines = repr(result.asnumpy()).splitlines()
            return [
                ">>> result.asnumpy()",
                *filter(str.strip, lines),
            ]  # blocks end with a blank line
    return [">>> result.shape", str(tuple(result.shape))]


def _clarity(sizes: list[int], params: dict[str, Any]) -> tuple[bool, int, int]:
    """Return a sort key that prefers few parameters and small arrays of at least 4 elements."""
    return bool(sizes) and sizes[0] < 4, sum(sizes), len(params)


def example(op: schema.Op, rows: list[Any]) -> list[str]:
    """Return the example of an operator: its smallest row that runs, with the result of running it.

    Raises
    ------
    ValueError
        No row runs in the form that the page shows.
    """
    fine = [case for case in rows if case.error is None and not case.training]
    fine.sort(key=lambda case: _clarity([a.size for a in case.inputs], case.params))
    programs = [program(op, case) for case in fine]
    for statements in [_STATEMENTS[op["name"]]] if op["name"] in _STATEMENTS else programs:
        scope: dict[str, Any] = {"mx": mxlite}
        mxlite.random.seed(0)
        try:
            exec("\n".join(statements), scope)
            shown = _shown(scope["result"])
            mxlite.waitall()  # raises the errors of asynchronous tasks
        except Exception:  # an operator may reject shortened values; try the next row
            continue
        return [*(f">>> {line}" for line in statements), *shown]
    raise ValueError(f"{op['name']}: no row of tests/python/unit/op_cases runs as an example")


def examples(folder: Path) -> dict[str, list[str]]:
    """Return the lines of the examples by the operators' names; the folder is that of the tests."""
    rows = rows_by_operator(folder)
    names = {op["name"]: op for op in schema.documented_ops().values()}
    return {n: example(op, rows[n]) for n, op in names.items() if n not in _NEEDS_A_JOB}


def main() -> None:
    """Write the file."""
    found = examples(Path("tests", "python", "unit"))
    text = "\n\n".join("\n".join([name, *lines]) for name, lines in found.items())
    EXAMPLES.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
