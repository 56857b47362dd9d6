"""Batches and what describes them (``mx.io``)."""

from __future__ import annotations

from .batch import DataBatch, DataDesc, DataIter

__all__ = ["DataBatch", "DataDesc", "DataIter"]
