"""Names of operators by what mixed precision does to them."""

from __future__ import annotations

import functools

from .... import _core

__all__ = ["CONDITIONAL", "FP32_PARAMETERS", "LOSS_OUTPUTS", "names_of"]

# (operator, parameter, values for which it needs float32)
CONDITIONAL = [
    ("Activation", "act_type", ["softrelu"]),
    ("LeakyReLU", "act_type", ["elu", "selu"]),
]
# They start gradients themselves, which the loss scale has to reach.
LOSS_OUTPUTS = [
    "SoftmaxOutput",
    "LinearRegressionOutput",
    "LogisticRegressionOutput",
    "MAERegressionOutput",
]
# Inputs that stay float32 when data is of the lower precision; "" is the data.
FP32_PARAMETERS = {
    "BatchNorm": ["", "gamma", "beta", "moving_mean", "moving_var"],
    "BatchNormWithReLU": ["", "gamma", "beta", "moving_mean", "moving_var"],
}


@functools.cache
def names_of(kind: str) -> tuple[str, ...]:
    """Return names and aliases of the operators of one class.

    Parameters
    ----------
    kind : str
        ``"low_precision"``, ``"float32"``, ``"widest"`` or ``"neutral"``.

    Returns
    -------
    tuple of str
        Without gradient operators and those with a condition.
    """
    conditional = {op for op, _, _ in CONDITIONAL}
    found = ["Custom"] if kind == "float32" else []
    for op in _core.list_ops():
        name = op["name"]
        if op["amp"] == kind and name not in conditional and not name.endswith("_backward"):
            found.extend([name, *op["aliases"]])
    return tuple(sorted(found))
