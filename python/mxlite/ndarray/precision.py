"""Decides in which precision operators run under mixed precision.

`ACTIVE` holds the rules that new symbols and calls follow (``mx.contrib.amp.init``); converting a
finished symbol uses rules of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ACTIVE", "FLOAT32", "LOW", "NEUTRAL", "WIDEST", "PrecisionRules"]

FLOAT32 = "float32"
LOW = "low_precision"
WIDEST = "widest"
NEUTRAL = "neutral"


@dataclass
class PrecisionRules:
    """Classes of operators by the engine's names.

    Attributes
    ----------
    target : str
        ``"float16"`` or ``"bfloat16"``.
    classes : dict of str to str
        ``"low_precision"``, ``"float32"``, ``"widest"`` or ``"neutral"``.
    conditions : dict of str to list of (str, tuple of str)
        Parameters with values for which the operator needs float32.
    """

    target: str
    classes: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)

    def class_of(self, op: str, params: Mapping[str, Any]) -> str:
        """Return the class of one call.

        Parameters
        ----------
        op : str
            The engine's name.
        params : mapping of str to object
            All parameters, defaults too.

        Returns
        -------
        str
        """
        for param, values in self.conditions.get(op, ()):
            if str(params.get(param)) in values:
                return FLOAT32
        return self.classes.get(op, NEUTRAL)


class _Active:
    """The rules of ``amp.init``, None before it."""

    rules: PrecisionRules | None = None


ACTIVE = _Active()
