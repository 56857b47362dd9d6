"""Variables and groups of symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Node, scoped_attrs, text_of
from ..base import TypeError_, ValueError_
from ..ndarray.serialization import dtype_code
from .symbol import Symbol


def var(
    name: str,
    attr: dict[str, str] | None = None,
    shape: Any = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    profiler_scope: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """Return a variable.

    Parameters
    ----------
    name : str
    attr : dict of str to str, optional
        Further attributes; those of the current ``mx.AttrScope`` are added.
    shape : tuple of int, optional
        0 or -1 for unknown dimensions.
    lr_mult, wd_mult : float, optional
        Factors of learning rate and weight decay.
    dtype : dtype, optional
    init : Initializer or str, optional
    stype : {'default', 'row_sparse', 'csr'}, optional
    profiler_scope : str, optional
        Accepted.
    **kwargs
        Attributes with names such as ``__key__``.

    Raises
    ------
    TypeError
        If the name is not a string.
    ValueError
        For a keyword that does not begin and end with two underscores.
    """
    if not isinstance(name, str):
        raise TypeError_(f"Expect a string for variable `name`, {name!r} given")
    for key, value in (attr or {}).items():
        if not isinstance(value, str):
            raise TypeError_(
                f"attr: {key!r} must be a string, got {value!r} of type {type(value).__name__}"
            )
    attrs = scoped_attrs(attr)
    if shape is not None:
        attrs["__shape__"] = text_of(shape if isinstance(shape, int) else tuple(shape))
    for key, factor in (("lr_mult", lr_mult), ("wd_mult", wd_mult)):
        if factor is not None:
            attrs[f"__{key}__"] = text_of(factor)
    if dtype is not None:
        attrs["__dtype__"] = str(dtype_code(dtype))
    if init is not None:
        attrs["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        kinds = ("default", "row_sparse", "csr")
        if stype not in kinds:
            raise ValueError_(f"var: stype must be one of {kinds}, got {stype!r}")
        attrs["__storage_type__"] = str(kinds.index(stype))
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError_(
                f"Attribute name={key} is not supported. Additional attributes must start and end "
                "with double underscores, e.g, __yourattr__"
            )
        attrs[key] = str(value)
    return Symbol._single(Node(None, name, attrs, []))


Variable = var


def Group(  # noqa: N802 - name of 1.x
    symbols: Sequence[Symbol], create_fn: type[Symbol] = Symbol
) -> Symbol:
    """Return a symbol, of class ``create_fn``, with the outputs of several symbols.

    Raises TypeError if the list is empty, or an entry is not a Symbol.
    """
    symbols = list(symbols)
    if not symbols or any(not isinstance(s, Symbol) for s in symbols):
        raise TypeError_("Expected a list of symbols as input")
    return create_fn([entry for s in symbols for entry in s._outputs])
