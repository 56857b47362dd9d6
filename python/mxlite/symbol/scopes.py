"""The current name and attribute scopes, which composition of symbols reads."""

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

    Initializers, which 1.x scripts pass as objects, are converted to text that ``mx.init`` reads.
    """
    given = None
    if attr is not None:
        given = {
            key: value.dumps() if hasattr(value, "dumps") else str(value)
            for key, value in attr.items()
        }
    return attribute.current().get(given)


_core.set_symbol_scopes(_full_name, _attrs)
