"""Errors and small shared helpers.

Every error of mxlite is an :class:`MXNetError` and, where one fits, also the builtin that a Python
programmer would catch: a wrong shape is a ``ValueError``, a missing file a ``FileNotFoundError``.
The C++ core raises the classes of this module as well.
"""

from __future__ import annotations

import builtins
import inspect
import operator
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Callable, ClassVar, TypeVar, Union

import numpy as np

if TYPE_CHECKING:  # set by modules_1x/__init__.py
    from .modules_1x.base_names import *  # noqa: F403

__all__ = [
    "AxisError",
    "CommunicatorError",
    "DTypeError",
    "DeviceError",
    "FileAccessError",
    "FileFormatError",
    "IndexError_",
    "InputError",
    "LinAlgError",
    "MXNetError",
    "MissingFileError",
    "NeedsInit",
    "NotImplementedForSymbol",
    "NotSupportedError",
    "NotSupportedForSparseNDArray",
    "OutOfMemoryError",
    "Provided",
    "RecordError",
    "ShapeError",
    "TypeError_",
    "ValueError_",
    "c2pyerror",
    "data_dir",
    "data_dir_default",
    "error_types",
    "keywords_of",
    "numeric_types",
    "register_error",
    "shape_tuple",
    "string_types",
    "suggestion",
    "unknown_keyword",
]

numeric_types = (float, int, np.generic)
string_types = (str,)
Numeric = Union[float, int, np.generic]
_F = TypeVar("_F", bound=Callable[..., Any])


class MXNetError(RuntimeError):
    """Base of all errors raised by mxlite (MXNet 1.x: ``mxnet.base.MXNetError``)."""


class ShapeError(MXNetError, ValueError):
    """Shapes that are incompatible, or a shape that an operator does not support."""


class DTypeError(MXNetError, TypeError):
    """An element type that an operator does not support, or two incompatible ones."""


class IndexError_(MXNetError, IndexError):  # noqa: N801, N818 - the builtin's name is taken
    """An axis or index outside its range."""


class ValueError_(MXNetError, ValueError):  # noqa: N801, N818 - the builtin's name is taken
    """An argument of the right type with an impossible value."""


class TypeError_(MXNetError, TypeError):  # noqa: N801, N818 - the builtin's name is taken
    """An argument of the wrong Python type."""


# Tracebacks show the names of built-in errors; pickle finds the classes by these names.
for _class in (IndexError_, ValueError_, TypeError_):
    _class.__name__ = _class.__qualname__ = _class.__name__.rstrip("_")
    globals()[_class.__name__] = _class


class AxisError(IndexError_, builtins.ValueError):
    """An axis that an array does not have (NumPy's AxisError is also both kinds of error)."""


class LinAlgError(ValueError_, np.linalg.LinAlgError):
    """A matrix that a decomposition or solver does not accept: singular, not positive definite."""


class InputError(TypeError_, builtins.ValueError):
    """An input of the wrong type where 1.x raises a ValueError."""


class DeviceError(MXNetError, builtins.ValueError):
    """A device that does not exist, or arrays on different devices in one operation."""


class OutOfMemoryError(MXNetError, MemoryError):
    """An allocation that the device or its limit refused."""


class RecordError(MXNetError, OSError):
    """A record file that is damaged, or a file of another format."""


class CommunicatorError(MXNetError):
    """A collective operation between processes failed."""


class NotSupportedError(MXNetError, NotImplementedError):
    """A feature of MXNet 1.x that this build of mxlite does not have."""


class DynamicShapeError(NotSupportedError):
    """A shape or the training mode of an operator cannot be part of a graph that is traced."""


class TracedArrayError(DynamicShapeError):
    """A forward read or wrote values of an array, which has none while a graph is traced."""


class ChangedAttributeError(TracedArrayError):
    """A forward changed attributes of its block while a graph was traced."""


class TracedWriteError(TracedArrayError, TypeError_):
    """A forward wrote ``x[...] = value`` while a graph was traced."""


class MissingFileError(MXNetError, FileNotFoundError):
    """A file that was to be read does not exist."""


class FileAccessError(MXNetError, OSError):
    """The operating system refused to read or write a file (permission, full disk, ...)."""


class FileFormatError(MXNetError, builtins.ValueError):
    """A file whose bytes do not have the expected format: truncated, damaged or foreign."""


class NotImplementedForSymbol(NotSupportedError):  # noqa: N818 - the name of 1.x
    """A function that works on arrays only was given a Symbol.

    Parameters
    ----------
    function : callable
    alias : str, optional
        The operator as the user wrote it.
    *args
        Arguments of the call.
    """

    def __init__(self, function: Any, alias: str | None, *args: Any) -> None:
        super().__init__(_refusal(function, alias, args, "Symbol", "implemented"))
        self.function = function.__name__
        self.alias = alias


class NotSupportedForSparseNDArray(NotSupportedError):  # noqa: N818 - the name of 1.x
    """A function that works on dense arrays only was given a sparse one.

    Parameters
    ----------
    function : callable
    alias : str, optional
        The operator as the user wrote it.
    *args
        Arguments of the call.
    """

    def __init__(self, function: Any, alias: str | None, *args: Any) -> None:
        super().__init__(_refusal(function, alias, args, "SparseNDArray", "supported"))
        self.function = function.__name__
        self.alias = alias


def _refusal(function: Any, alias: str | None, args: Iterable[Any], kind: str, verb: str) -> str:
    """Return the error text for an argument of an unsupported class."""
    operator = f' (operator "{alias}")' if alias else ""
    given = ", ".join(type(arg).__name__ for arg in args)
    return f"{function.__name__}{operator}: arguments ({given}), not {verb} for {kind}, use NDArray"


# Error classes by the word that begins an error text: ``mx.error.register`` adds to it.
error_types: dict[str, type] = {
    "ValueError": ValueError_,
    "TypeError": TypeError_,
    "IndexError": IndexError_,
    "AttributeError": AttributeError,
    "NotImplementedError": NotSupportedError,
    "NotImplementedForSymbol": NotImplementedForSymbol,
}


def register_error(func_name: Any = None, cls: type | None = None) -> Any:
    """Register an error class by the word that begins its texts.

    Parameters
    ----------
    func_name : str or type
        The word; a class stands for its own name.
    cls : type, optional
        Without it a decorator is returned.

    Returns
    -------
    type or callable
    """
    if isinstance(func_name, type):
        func_name, cls = func_name.__name__, func_name

    def register(error_class: type) -> type:
        error_types[func_name] = error_class
        return error_class

    return register if cls is None else register(cls)


def c2pyerror(err_msg: str) -> tuple[str, str | None]:
    """Return the text of an error, ``"ValueError: wrong"``, and its registered class or None."""
    match = re.match(r"\s*([A-Za-z_]\w*):", err_msg)
    word = match.group(1) if match else None
    return err_msg, word if word in error_types else None


_TRAINING = "autograd.record() chooses training mode, a network called outside of it predicts"
# Names that other libraries, or other functions of mxlite, use for the same thing. A value with
# blanks is a hint for any object; other values are names, shown only if the object has them.
_OTHER_NAMES = {
    "axis": ("dim",), "batch_first": ("use layout='NTC'",), "betas": ("beta1",),
    "bias": ("use_bias",), "dim": ("axis",), "drop_last": ("use last_batch='discard'",),
    "embedding_dim": ("output_dim",), "eps": ("epsilon",),
    "hidden": ("units", "hidden_size"), "in_features": ("in_units",), "keepdim": ("keepdims",),
    "kernel": ("kernel_size",), "lr": ("learning_rate",), "negative_slope": ("alpha",),
    "num_embeddings": ("input_dim",), "num_filter": ("channels",),
    "num_hidden": ("units", "hidden_size"), "out_channels": ("channels",),
    "out_features": ("units",), "p": ("rate",), "pad": ("padding",),
    "size": ("shape",), "stride": ("strides",), "weight_decay": ("wd",),
    # modules and layers of PyTorch
    "BCEWithLogitsLoss": ("SigmoidBinaryCrossEntropyLoss",), "BatchNorm1d": ("BatchNorm",),
    "BatchNorm2d": ("BatchNorm",), "BatchNorm3d": ("BatchNorm",),
    "CosineAnnealingLR": ("CosineScheduler", "use lr_scheduler.CosineScheduler"),
    "CrossEntropyLoss": ("use gluon.loss.SoftmaxCrossEntropyLoss",), "Linear": ("Dense",),
    "L1Loss": ("use gluon.loss.L1Loss",), "LSTM": ("use gluon.rnn.LSTM",),
    "MSELoss": ("use gluon.loss.L2Loss",), "Module": ("Block", "HybridBlock"),
    "MultiStepLR": ("MultiFactorScheduler", "use lr_scheduler.MultiFactorScheduler"),
    "ReLU": ("Activation",), "Sigmoid": ("Activation",),
    "StepLR": ("FactorScheduler", "use lr_scheduler.FactorScheduler"), "Tanh": ("Activation",),
    "cat": ("concat", "use nd.concat"), "cuda": ("gpu", "as_in_context", "collect_params"),
    "functional": ("use the functions of mx.nd, or of F in hybrid_forward",),
    "manual_seed": ("use mx.random.seed",), "nn": ("use gluon.nn",),
    "no_grad": ("use autograd.pause()",), "optim": ("optimizer",), "tensor": ("use nd.array",),
    # methods of PyTorch's arrays and networks
    "bmm": ("batch_dot",), "bool": ("astype",), "clamp": ("clip",), "clone": ("copy",),
    "contiguous": ("operators take every array as it is, so no call is needed",),
    "cpu": ("as_in_context",),
    "device": ("ctx",), "double": ("astype",), "eval": (_TRAINING,), "float": ("astype",),
    "half": ("astype", "cast"), "int": ("astype",), "item": ("asscalar",),
    "load_state_dict": ("load_parameters",), "long": ("astype",), "matmul": ("dot",),
    "mm": ("dot",), "modules": ("use apply(fn), which calls fn with every block",),
    "named_parameters": ("collect_params",), "numel": ("size",),
    "numpy": ("asnumpy",), "parameters": ("collect_params",), "permute": ("transpose",),
    "requires_grad": ("attach_grad",), "requires_grad_": ("attach_grad",),
    "state_dict": ("save_parameters",), "to": ("as_in_context", "astype", "cast", "collect_params"),
    "tolist": ("use asnumpy().tolist()",), "train": (_TRAINING,),
    "unsqueeze": ("expand_dims",), "view": ("reshape",),
    "zero_grad": ("use collect_params().zero_grad()",),
}  # fmt: skip


def shape_tuple(shape: Any, where: str) -> tuple[int, ...]:
    """Return a user's shape (int or integers) as a tuple; raise TypeError for others such as 2.0.

    ``where`` begins the message of the error.
    """
    try:
        return (operator.index(shape),)
    except builtins.TypeError:
        pass
    try:
        if isinstance(shape, (str, bytes)):
            raise builtins.TypeError
        return tuple(operator.index(extent) for extent in shape)
    except builtins.TypeError:
        raise TypeError_(f"{where} must be a tuple of integers, got {shape!r}") from None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known names, or an empty string."""
    names = list(known)
    hint = _other_name(name, names)
    if hint:
        return hint
    import difflib  # imported on use, because only errors need it

    return _did_you_mean(difflib.get_close_matches(name, names, n=3, cutoff=0.6))


def _did_you_mean(names: Sequence[str]) -> str:
    return "; did you mean " + " or ".join(map(repr, names)) + "?" if names else ""


def _other_name(name: str, known: Iterable[str]) -> str:
    """Return the hint from `_OTHER_NAMES` for a name, or an empty string."""
    others = _OTHER_NAMES.get(name, ())
    near = [other for other in others if other in known]
    return _did_you_mean(near) or "".join(f"; {other}" for other in others if " " in other)


def missing_attribute(owner: object, name: str) -> Any:
    """Raise the error for an attribute that an object lacks; for its class's ``__getattr__``."""
    hint = _other_name(name, dir(type(owner))) if name in _OTHER_NAMES else ""
    if not hint:
        return object.__getattribute__(owner, name)  # raises the usual error, or that of a property
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{hint}")


def keywords_of(kind: type) -> list[str]:
    """Return the names of the arguments of ``__init__`` of a class and its bases."""
    names: dict[str, None] = {}
    for base in kind.__mro__:
        if "__init__" in vars(base) and base is not object:
            for name, parameter in inspect.signature(vars(base)["__init__"]).parameters.items():
                if name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
                    names[name] = None
    return list(names)


def unknown_keyword(kind: type, given: str) -> TypeError_:
    """Return the error for a keyword that no ``__init__`` of a class and its bases takes.

    It suggests near keywords, else lists those of the class.
    """
    names = keywords_of(kind)
    hint = suggestion(given, names) or f"; known: {', '.join(names)}"
    return TypeError_(f"{kind.__name__}() got an unexpected keyword argument {given!r}{hint}")


class NeedsInit:
    """Base of classes that users extend; reports a missing call of ``super().__init__()``.

    Derived classes name an attribute that their ``__init__`` sets in ``_set_by_init``.
    """

    _set_by_init: ClassVar[str]

    if not TYPE_CHECKING:  # hidden from type checkers, so that they know the attributes

        def __getattr__(self, name):
            """Raise AttributeError; called for missing attributes only."""
            if name[:2] != "__" and self._set_by_init not in self.__dict__:
                kind = type(self).__name__
                raise AttributeError(
                    f"{kind!r} object has no attribute {name!r}: {kind}.__init__ has not called "
                    "super().__init__(), which must come first"
                )
            return missing_attribute(self, name)


class Provided:
    """A function that a lower module calls and a higher module provides when it is imported.

    Examples
    --------
    >>> shown = Provided()  # in the lower module, which calls shown(value)
    >>> @lower.shown.provide  # in the higher one
    ... def shown(value): ...
    """

    def __init__(self) -> None:
        self._function: Callable[..., Any] | None = None

    def provide(self, function: _F) -> _F:
        """Set the function; usable as a decorator."""
        self._function = function
        return function

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself, for pickles."""
        assert self._function is not None, "no module has provided this function yet"
        return self._function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)


def data_dir() -> str:
    """Return the folder of downloads and caches: ``MXNET_HOME``, else ``~/.mxnet``.

    Returns
    -------
    str
        An absolute path; the folder need not exist.
    """
    import os

    return os.path.expanduser(os.environ.get("MXNET_HOME") or data_dir_default())


def data_dir_default() -> str:
    """Return the default folder for downloads: ``~/.mxnet``."""
    import os

    return os.path.join(os.path.expanduser("~"), ".mxnet")
