"""Operators for networks on NumPy-like arrays, and the switches of numpy mode: ``mx.npx``."""

from __future__ import annotations
