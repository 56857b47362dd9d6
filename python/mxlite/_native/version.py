"""The version of mxlite; ``pyproject.toml`` must have the same version."""

from __future__ import annotations

__version__ = "0.1.0"
