"""State of Python that composition reads: scopes of names and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core, attribute
from .. import name as _name

__all__: list[str] = []


def _full_name(name: str | None, hint: str) -> str:
    return _name.current().get(name, hint)


def _attrs(attr: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the attributes of the current scope updated by ``attr``, values as text.

    An initializer becomes what ``mx.init`` reads back; 1.x scripts hand them over as objects.
    """
    given = None
    if attr is not None:
        given = {
            key: value.dumps() if hasattr(value, "dumps") else str(value)
            for key, value in attr.items()
        }
    return attribute.current().get(given)


_core.set_symbol_scopes(_full_name, _attrs)
