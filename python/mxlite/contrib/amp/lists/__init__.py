"""Operators by precision, in modules named as in 1.x; both read the operators' schemas."""

from __future__ import annotations

from . import symbol_bf16, symbol_fp16

__all__ = ["symbol_bf16", "symbol_fp16"]
