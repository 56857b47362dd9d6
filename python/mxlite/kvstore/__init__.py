"""Stores that sum and share arrays between devices and processes (``mx.kvstore``, ``mx.kv``)."""

from __future__ import annotations

from .base import KVStoreBase
from .kvstore_server import KVStoreServer
from .local import KVStore, KVStoreError, KVStoreModeError
from .names import create

__all__ = ["KVStore", "KVStoreBase", "KVStoreError", "KVStoreModeError", "KVStoreServer", "create"]
