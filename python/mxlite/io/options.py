"""Keywords of iterators."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..base import suggestion

_Iterator = TypeVar("_Iterator", bound="type[Any]")


def documented(texts: Mapping[str, str]) -> Callable[[_Iterator], _Iterator]:
    """Return a decorator that lists the options of an iterator in its docstring.

    The list replaces ``{options}`` in the docstring. It contains the names of `texts` that are also
    in ``_defaults`` of the class.
    """

    def document(cls: _Iterator) -> _Iterator:
        lines = []
        for name, default in cls._defaults.items():
            if name in texts:
                shown = f"{default:g}" if isinstance(default, float) else repr(default)
                lines.append(f"{name} : {type(default).__name__}, default {shown}")
                lines += [f"    {line}" for line in textwrap.wrap(texts[name], 92)]
        cls.__doc__ = (cls.__doc__ or "").replace("{options}", "\n    ".join(lines))
        return cls

    return document


def known_options(name: str, given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the keywords that an iterator has; warn about each unknown one.

    1.x ignores unknown keywords silently, and scripts pass keywords of other iterators.
    """
    known = list(known)
    for key in given:
        if key not in known:
            warnings.warn(
                f"{name}: unknown parameter {key!r} is ignored{suggestion(key, known)}",
                UserWarning,
                stacklevel=3,
            )
    return {key: value for key, value in given.items() if key in known}
