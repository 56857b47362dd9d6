"""Dictionaries of parameters with a common prefix."""

from __future__ import annotations

import os
import warnings
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any

from ... import initializer
from ... import ndarray as nd
from ...base import suggestion
from ...context import Context
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from . import parameter as _parameter
from .files import (
    MissingParameterError,
    ParameterNameError,
    brief,
    load_into,
    load_named,
    strip_kind,
)
from .parameter import Constant, Parameter

__all__ = ["MissingParameterError", "ParameterDict", "ParameterNameError"]


class ParameterDict:
    """Parameters by full name.

    Matches ``mxnet.gluon.ParameterDict``.

    Parameters
    ----------
    prefix : str
        Text before the name given to `get`.
    shared : ParameterDict, optional
        Parameters among which `get` looks first.
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._shared = shared
        self._params: dict[str, Parameter] = {}

    def __repr__(self) -> str:
        name = self._prefix + " " if self._prefix else ""
        lines = "\n".join(f"  {param!r}" for param in self.values())
        return f"{name}(\n{lines}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> ItemsView[str, Parameter]:
        """Return names and parameters."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """Return the full names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Return the parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """The text before each name given to `get`."""
        return self._prefix

    def _find(self, name: str) -> Parameter | None:
        if name in self._params:
            return self._params[name]
        if self._shared is not None:
            param = self._shared._find(name)
            if param is not None:
                self._params[name] = param
            return param
        return None

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """Return the parameter ``prefix + name``; create it if it does not exist.

        Parameters
        ----------
        name : str
            Name without the prefix.
        **kwargs
            Arguments of `Parameter`; an existing parameter must agree with them.

        Raises
        ------
        MissingParameterError
            If an existing parameter has different attributes.
        """
        full = self._prefix + name
        param = self._find(full)
        if param is None:
            param = Parameter(full, **kwargs)
            self._params[full] = param
            return param
        for key, wanted in kwargs.items():
            stored = getattr(param, key, None)
            if stored is None:
                if wanted is not None:
                    setattr(param, key, wanted)
            elif wanted is not None and not self._agrees(param, key, wanted, stored):
                raise ParameterNameError(
                    f"Cannot retrieve Parameter {full!r} because desired attribute does not match "
                    f"with stored for attribute {key!r}: desired {wanted!r} vs stored {stored!r}."
                )
        return param

    @staticmethod
    def _agrees(param: Parameter, key: str, wanted: Any, stored: Any) -> bool:
        """Return whether an attribute has the requested value; merge partly unknown shapes."""
        if key == "shape":
            wanted = (wanted,) if isinstance(wanted, int) else tuple(wanted)
            if len(wanted) != len(stored):
                return False
            if any(i > 0 and j > 0 and i != j for i, j in zip(wanted, stored)):
                return False
            param._shape = tuple(max(i, j) for i, j in zip(wanted, stored))
            return True
        if key == "shard":
            return param._shard is not None and param._shard.is_given_by(wanted)
        if key == "dtype":
            return dtype_name(wanted) == dtype_name(stored)
        return bool(wanted == stored)

    def get_constant(self, name: str, value: Any = None) -> Constant:
        """Return the constant ``prefix + name``; create it from ``value`` if it does not exist.

        Parameters
        ----------
        name : str
        value : NDArray or array-like, optional
            Must equal the value of an existing constant.
        """
        full = self._prefix + name
        param = self._find(full)
        if param is None:
            if value is None:
                raise ParameterNameError(
                    f"No constant named {full!r}. Please specify value if you want to create a new "
                    "constant."
                )
            param = Constant(full, value)
            self._params[full] = param
        elif not isinstance(param, Constant):
            raise ParameterNameError(f"Parameter {full!r} already exists but it is not a constant.")
        elif value is not None:
            given = value.asnumpy() if isinstance(value, NDArray) else nd.array(value).asnumpy()
            known = param.value.asnumpy()
            if given.shape != known.shape or not (given == known).all():
                raise ParameterNameError(
                    f"Constant {full!r} already exists but its value doesn't match new value"
                )
        return param

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Add all parameters of another dictionary.

        Raises
        ------
        ParameterNameError
            If both have different parameters of one name.
        """
        for name, param in other.items():
            if self._params.get(name, param) is not param:
                raise ParameterNameError(
                    "Cannot update self with other because they have different Parameters with the "
                    f"same name {name!r}"
                )
        self._params.update(other.items())

    def initialize(
        self,
        init: Any = None,
        ctx: Context | Sequence[Context] | None = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize all parameters; see `Parameter.initialize`.

        Parameters
        ----------
        init : Initializer or str, optional
            For parameters without own initializer; default is `Uniform()`.
        ctx : Context or list of Context, optional
        verbose : bool
            Log each parameter.
        force_reinit : bool
        """
        init = initializer.Uniform() if init is None else init
        if isinstance(init, str):
            init = initializer.create(init)
        if verbose and hasattr(init, "set_verbosity"):
            init.set_verbosity(verbose=verbose)
        kept = [] if force_reinit else [p for p in self.values() if p._data is not None]
        if len(kept) > 1:
            warnings.warn(
                f"{len(kept)} of {len(self)} Parameters are already initialized, ignoring them: "
                f"{brief({p.name: p for p in kept}, 3)}. Set force_reinit=True to re-initialize.",
                stacklevel=3,
            )
        for param in self.values():
            if len(kept) <= 1 or param._data is None or force_reinit:
                param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: Context | Sequence[Context]) -> None:
        """Move all parameters to other contexts; see `Parameter.reset_ctx`."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Return all contexts of the parameters."""
        found: dict[Context, None] = {}
        for param in self.values():
            found.update(dict.fromkeys(param.list_ctx()))
        return list(found)

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters, such as ``grad_req`` or ``lr_mult``."""
        if not self._params:
            warnings.warn(
                f"setattr: {name}={value!r} has no effect, because this dict has no Parameter; the "
                "pattern given to collect_params must match names from their start, such as "
                "'.*bias' or 'dense0_'",
                stacklevel=2,
            )
        for param in self.values():
            if not hasattr(param, name):
                near = suggestion(name, (n for n in dir(param) if not n.startswith("_")))
                warnings.warn(
                    f"setattr: a Parameter has no attribute {name!r}{near or '.'} It is set, but "
                    "nothing in mxlite reads it",
                    stacklevel=2,
                )
                break
        for param in self.values():
            setattr(param, name, value)

    def save(self, filename: str | os.PathLike[str], strip_prefix: str = "") -> None:
        """Save all parameters under their full names.

        Parameters
        ----------
        filename : str or path
        strip_prefix : str
            Removed from the names.

        Raises
        ------
        ParameterNameError
            If a name does not begin with ``strip_prefix``.
        """
        arrays = {}
        for param in self.values():
            if not param.name.startswith(strip_prefix):
                raise ParameterNameError(
                    f"Prefix {strip_prefix!r} is to be stripped before saving, but Parameter's "
                    f"name {param.name!r} does not start with {strip_prefix!r}. If you are using "
                    "Block.save_parameters, this may be due to your Block sharing parameters from "
                    "other Blocks."
                )
            arrays[param.name[len(strip_prefix) :]] = param._reduce()
        nd.save(filename, arrays)

    def load(
        self,
        filename: str | os.PathLike[str],
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Load parameters saved by `save` or `HybridBlock.export`.

        Parameters
        ----------
        filename : str or path
        ctx : Context or list of Context, optional
            Context of uninitialized parameters; default is the CPU.
        allow_missing : bool
            Keep the values of parameters that the file does not have.
        ignore_extra : bool
            Ignore names in the file that this dictionary does not have.
        restore_prefix : str
            Text before the names in the file.
        cast_dtype : bool
            Convert types that differ.
        dtype_source : {'current', 'saved'}
            Whether to convert to the type of the parameter or to that of the file.

        Raises
        ------
        ParameterNameError
            For missing or extra names; the message suggests near ones.
        """
        arrays = load_named(filename)
        named = {restore_prefix + strip_kind(name): value for name, value in arrays.items()}
        self._load(named, f"file {os.fspath(filename)!r}", ctx, allow_missing, ignore_extra,
                   cast_dtype, dtype_source)  # fmt: skip

    def load_dict(
        self,
        param_dict: Mapping[str, NDArray],
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Load parameters from a dictionary; the other arguments are those of `load`.

        Parameters
        ----------
        param_dict : mapping of str to NDArray
        filename : str, optional
            Source of the arrays, for messages.
        ctx, allow_missing, ignore_extra, restore_prefix, cast_dtype, dtype_source
            As in `load`.
        """
        named = {restore_prefix + strip_kind(name): v.copy() for name, v in param_dict.items()}
        source = "the given dict" if filename is None else f"file {filename!r}"
        self._load(named, source, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)

    def _load(
        self,
        arrays: Mapping[str, NDArray],
        source: str,
        ctx: Context | Sequence[Context] | None,
        allow_missing: bool,
        ignore_extra: bool,
        cast_dtype: bool,
        dtype_source: str,
    ) -> None:
        load_into(
            {name: [param] for name, param in self.items()},
            arrays, source, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source,
        )  # fmt: skip


vars(_parameter)["ParameterDict"] = ParameterDict  # also available in that module, as in 1.x
