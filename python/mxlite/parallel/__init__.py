"""Models that are divided among processes (``mx.parallel``): process meshes and pipelines.

Layers whose parameters are divided are in :mod:`mxlite.gluon.contrib.parallel`.
"""

from __future__ import annotations

from .mesh import Mesh, MeshError, mesh
from .pipeline import Pipeline
from .schedules import one_forward_one_backward

__all__ = ["Mesh", "MeshError", "Pipeline", "mesh", "one_forward_one_backward"]
