"""Operators by precision, from the operators' schemas; the modules are named as in 1.x."""

from __future__ import annotations

from . import symbol_bf16, symbol_fp16

__all__ = ["symbol_bf16", "symbol_fp16"]
