"""Training of symbols (``mx.module``, ``mx.mod``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._names_1x import attributes as _attributes
from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .common import ModuleStateError
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = [
    "BaseModule",
    "BucketingModule",
    "Module",
    "ModuleStateError",
    "PythonLossModule",
    "PythonModule",
    "SequentialModule",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
