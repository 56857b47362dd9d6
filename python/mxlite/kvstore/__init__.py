"""Stores that sum and share arrays between devices and processes (``mx.kvstore``, ``mx.kv``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from .base import KVStoreBase
from .kvstore_server import KVStoreServer
from .local import KVStore, KVStoreError, KVStoreModeError
from .names import create

__all__ = ["KVStore", "KVStoreBase", "KVStoreError", "KVStoreModeError", "KVStoreServer", "create"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
