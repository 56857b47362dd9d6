"""Checks of the numbers, texts and booleans that constructors of mxlite's classes receive."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from .base import TypeError_, ValueError_, keywords_of, unknown_keyword

__all__ = ["TypedInit", "check_argument", "check_number", "check_sizes", "with_defaults"]

Init = TypeVar("Init", bound=Callable[..., None])


def check_number(who: str, name: str, value: Any) -> None:
    """Check one numeric argument."""
    if not _is_number(value):
        raise _unexpected(who, name, value, "a number")
    if isinstance(value, float) and math.isnan(value):
        raise ValueError_(f"{who}: {name} must be a number, got nan")


def check_argument(klass: type, name: str, value: Any) -> bool:
    """Check a value against the annotation of a constructor argument of a class or its bases."""
    for base in klass.__mro__:
        init = vars(base).get("__init__")
        known = inspect.signature(init).parameters if inspect.isfunction(init) else {}
        kind = _KINDS.get(str(known[name].annotation)) if name in known else None
        if kind is not None:
            fits, expected, optional = kind
            if not fits(value) and not (
                value is None and (optional or known[name].default is None)
            ):
                raise _unexpected(klass.__name__, name, value, expected)
            return True
    return False


def check_sizes(who: str, least: int, **sizes: int) -> None:
    """Raise ValueError if one of the named numbers is below ``least``."""
    for name, size in sizes.items():
        if size < least:
            raise ValueError_(f"{who}: {name} must be {least} or more, got {size}")


def with_defaults(init: Init, owner: str, **defaults: Any) -> Init:
    """Return a copy of a constructor for the class ``owner``, with other default values."""
    source: Any = inspect.unwrap(init)
    copy = FunctionType(source.__code__, source.__globals__, "__init__", None, source.__closure__)
    copy.__defaults__ = tuple(
        defaults.get(name, default) for name, default in _defaults(source).items()
    )
    copy.__annotations__, copy.__qualname__ = source.__annotations__, f"{owner}.__init__"
    return cast(Init, copy)


def _defaults(init: FunctionType) -> dict[str, Any]:
    """Return the defaults of the arguments that may be given by position."""
    names = init.__code__.co_varnames[: init.__code__.co_argcount]
    values = init.__defaults__ or ()
    return dict(zip(names[len(names) - len(values) :], values))


def _is_number(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return True
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        return False
    return getattr(value, "size", 1) == 1


def _is_integer(value: Any) -> bool:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return True
    try:
        operator.index(value)
    except (TypeError, ValueError):  # arrays of several values raise one of these
        return False
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_switch(value: Any) -> bool:
    return not isinstance(value, (str, bytes))


# For each annotation: a check, the error text's name of valid values, and whether None is valid.
_KINDS: dict[str, tuple[Callable[[Any], bool], str, bool]] = {
    "float": (_is_number, "a number", False),
    "float | None": (_is_number, "a number", True),
    "int": (_is_integer, "an integer", False),
    "int | None": (_is_integer, "an integer", True),
    "str": (_is_text, "a string", False),
    "str | None": (_is_text, "a string", True),
    "bool": (_is_switch, "True or False", True),
}


def _unexpected(who: str, name: str, value: Any, expected: str) -> TypeError:
    text = repr(value)
    shown = text if len(text) <= 60 else f"of type {type(value).__name__}"
    return TypeError_(f"{who}: {name} must be {expected}, got {shown}")


class TypedInit:
    """Base of classes whose ``__init__`` checks its arguments by their annotations.

    A float argument must be a number, not a text such as ``'0.1'``. An int argument must be a whole
    number; 2.0 is accepted. A bool argument must not be a text, because ``'False'`` is true.
    Derived classes outside mxlite are not checked.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Wrap the ``__init__`` of a class of mxlite."""
        super().__init_subclass__(**options)
        init = cls.__dict__.get("__init__")
        if init is not None and cls.__module__.startswith("mxlite."):
            checked = _checked(init)
            if checked is not None:
                setattr(cls, "__init__", checked)  # noqa: B010 - mypy refuses the assignment


def _checked(init: Callable[..., None]) -> Callable[..., None] | None:
    """Return ``init`` wrapped in checks of its arguments; None if it has none to check."""
    # Reads the code object, because inspect.signature() would take 10 % of mxlite's import time.
    source: Any = inspect.unwrap(init)
    code = source.__code__
    positions = code.co_varnames[1 : code.co_argcount]
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    defaults = {**_defaults(source), **(source.__kwdefaults__ or {})}
    by_name: dict[str, tuple[Callable[[Any], bool], str, bool]] = {}
    for name, annotation in source.__annotations__.items():
        kind = _KINDS.get(annotation)
        if kind is not None and name in names:
            fits, expected, optional = kind
            by_name[name] = fits, expected, optional or defaults.get(name, name) is None
    if not by_name:
        return None

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in (*zip(positions, args), *kwargs.items()):
            kind = by_name.get(name)
            if kind is not None and not (kind[0](value) or value is None and kind[2]):
                raise _unexpected(type(self).__name__, name, value, kind[1])
        if not kwargs.keys() <= names:
            _check_keywords(self, _signature(init), args, kwargs)
        init(self, *args, **kwargs)

    return checked


_signature = functools.cache(inspect.signature)


def _check_keywords(
    self: Any, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise for an unknown keyword, before Python reports that the intended argument is missing."""
    try:
        signature.bind(self, *args, **kwargs)
    except TypeError:
        known = keywords_of(type(self))
        for name in kwargs:
            if name not in known:
                raise unknown_keyword(type(self), name) from None
