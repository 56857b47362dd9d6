"""Operators by precision, as modules of 1.x's names; both read the operators' schemas."""

from __future__ import annotations

from . import symbol_bf16, symbol_fp16

__all__ = ["symbol_bf16", "symbol_fp16"]
