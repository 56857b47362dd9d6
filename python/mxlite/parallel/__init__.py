"""Models and data divided among processes (``mx.parallel``): meshes, shards, pipelines, layers.

The layers with sharded parameters are public as :mod:`mxlite.gluon.contrib.parallel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .mesh import Mesh, MeshError, mesh
from .schedules import one_forward_one_backward

if TYPE_CHECKING:
    from .pipeline import Pipeline

__all__ = ["Mesh", "MeshError", "Pipeline", "mesh", "one_forward_one_backward"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "Pipeline":
            # A pipeline is a Gluon block, and Gluon uses the shards of this package.
            from .pipeline import Pipeline

            return Pipeline
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
