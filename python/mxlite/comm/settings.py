"""The ``HOROVOD_*`` variables, read when a job is joined."""

from __future__ import annotations

import math
import os
from typing import Any

from ..base import ValueError_

MB = 1 << 20


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    if not text.strip():
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ValueError_(
            f"environment variable {name} must be a number of at least 0, got {text!r}"
        )
    return value


def _flag(name: str, default: bool = False) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if text in ("true", "yes", "on"):
        return True
    if text in ("false", "no", "off"):
        return False
    return _number(name, float(default)) > 0


def dynamic_process_sets() -> bool:
    """Return whether process sets may be added after ``init``."""
    return _flag("HOROVOD_DYNAMIC_PROCESS_SETS")


def timeline_marks_cycles() -> bool:
    """Return whether a timeline marks the start of each negotiation round."""
    return _flag("HOROVOD_TIMELINE_MARK_CYCLES")


def runtime_options() -> dict[str, Any]:
    """Return the options of the core's runtime."""
    timeline = os.environ.get("HOROVOD_TIMELINE", "")
    warning = _number("HOROVOD_STALL_CHECK_TIME_SECONDS", 60)
    return {
        "fusion_bytes": int(_number("HOROVOD_FUSION_THRESHOLD", 128 * MB)),
        "cycle_ms": _number("HOROVOD_CYCLE_TIME", 1),
        "wait_for_cycle": bool(os.environ.get("HOROVOD_CYCLE_TIME", "").strip()),
        "cache_capacity": int(_number("HOROVOD_CACHE_CAPACITY", 1024)),
        "stall_warning": 0.0 if _flag("HOROVOD_STALL_CHECK_DISABLE") else warning,
        "stall_shutdown": _number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0),
        "timeline": "" if timeline.upper() == "DYNAMIC" else timeline,
        "timeline_marks_cycles": timeline_marks_cycles(),
    }
