"""Configuration and state of the profiler, and its two outputs."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from typing import Any

from .. import _core
from ..base import NotSupportedError, TypeError_, ValueError_, suggestion
from .record import API, COMM, IO, OPERATOR, PASS, record
from .tables import aggregate_json, aggregate_table
from .trace import write_trace

_FLAGS = {
    "profile_all": False,
    "profile_symbolic": True,
    "profile_imperative": True,
    "profile_memory": True,
    "profile_api": True,
    "continuous_dump": True,
    "aggregate_stats": False,
}
_OTHER = {"filename": "profile.json", "dump_period": 1.0, "profile_process": "worker"}
_SORT_KEYS = ("total", "avg", "min", "max", "count")

_config: dict[str, Any] = {**_FLAGS, **_OTHER}
_lock = threading.Lock()
_finished = False  # a finished dump ends recording until set_state("run")


def _check_process(profile_process: str) -> None:
    if profile_process not in ("worker", "server"):
        raise ValueError_(
            f"profiler: profile_process={profile_process!r} given, 'worker' or 'server' expected"
        )
    if profile_process == "server":
        raise NotSupportedError("profiler: profile_process='server' is not built; profile a worker")


def set_config(**kwargs: Any) -> None:
    """Configure the profiler; what is not named keeps its value.

    Parameters
    ----------
    **kwargs
        ``filename`` (str, ``"profile.json"``), ``profile_all``, ``profile_symbolic``,
        ``profile_imperative``, ``profile_memory``, ``profile_api``, ``aggregate_stats`` (bool: let
        ``dumps`` count), ``continuous_dump`` and ``dump_period`` (accepted: ``dump`` writes the
        file whole), ``profile_process`` (``"worker"``).

    Raises
    ------
    TypeError
        An unknown name or a value of the wrong type.

    Notes
    -----
    Matches ``mxnet.profiler.set_config``.
    """
    for name, value in kwargs.items():
        if name not in _config:
            raise TypeError_(
                f"profiler.set_config: unknown argument {name!r}{suggestion(name, _config)}"
            )
        if name in _FLAGS and not isinstance(value, (bool, int)):
            raise TypeError_(f"profiler.set_config: {name}={value!r} given, a bool expected")
    _check_process(kwargs.get("profile_process", "worker"))
    if "filename" in kwargs:
        kwargs["filename"] = os.fspath(kwargs["filename"])
    _config.update(kwargs)


def _kinds() -> int:
    everything = bool(_config["profile_all"])
    bits = 1 << IO | 1 << COMM
    if everything or _config["profile_symbolic"] or _config["profile_imperative"]:
        bits |= 1 << OPERATOR
    if everything or _config["profile_symbolic"]:
        bits |= 1 << PASS
    if everything or _config["profile_api"]:
        bits |= 1 << API
    return bits


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start or stop recording.

    Parameters
    ----------
    state : {"run", "stop"}
        What to do. ``"stop"`` waits for work in flight, so that it is seen.
    profile_process : {"worker"}
        Whose profiler.

    Raises
    ------
    ValueError
        Another state.
    """
    global _finished
    _check_process(profile_process)
    if state not in ("run", "stop"):
        raise ValueError_(f"profiler.set_state: {state!r} given, 'run' or 'stop' expected")
    with _lock:
        if state == "run":
            _finished = False
            record.running = True
            memory = bool(_config["profile_all"] or _config["profile_memory"])
            _core.profiler_start(_kinds(), memory)
        else:
            _wait()
            _core.profiler_stop()
            record.running = False


def _wait() -> None:
    if not _core.profiler_runs():
        return
    try:
        _core.waitall()
    except RuntimeError as error:  # belongs to whoever reads the value; the trace is wanted now
        warnings.warn(f"profiler: work in flight failed: {error}", stacklevel=3)


def pause(profile_process: str = "worker") -> None:
    """Stop recording for a while; ``resume`` goes on."""
    _check_process(profile_process)
    _core.profiler_stop()
    record.running = False


def resume(profile_process: str = "worker") -> None:
    """Go on after ``pause``."""
    _check_process(profile_process)
    if not _finished:
        set_state("run")


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write what was recorded since the last finished dump to ``filename``.

    Parameters
    ----------
    finished : bool
        Stop recording and forget what was written; otherwise a later dump holds it again.
    profile_process : {"worker"}
        Whose profiler.

    Raises
    ------
    OSError
        The file cannot be written; an older file then stays as it is.
    """
    global _finished
    _check_process(profile_process)
    with _lock:
        _wait()
        if finished:
            _core.profiler_stop()
            record.running = False
        write_trace(str(_config["filename"]), record.events())
        if finished:
            _finished = True
            record.clear()


def dumps(
    reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False
) -> str:
    """Return counts and times by operator as text; empty without ``aggregate_stats``.

    Parameters
    ----------
    reset : bool
        Start counting anew.
    format : {"table", "json"}
        Tables for people or an object for programs; times in ms, memory in kB.
    sort_by : {"total", "avg", "min", "max", "count"}
        Column that orders the rows.
    ascending : bool
        Smallest first.

    Returns
    -------
    str
        The text.

    Raises
    ------
    ValueError
        Another format or column.
    """
    if format not in ("table", "json"):
        raise ValueError_(f"profiler.dumps: format={format!r} given, 'table' or 'json' expected")
    if sort_by not in _SORT_KEYS:
        raise ValueError_(
            f"profiler.dumps: sort_by={sort_by!r} given, one of {_SORT_KEYS} expected"
        )
    with _lock:
        if not _config["aggregate_stats"]:
            return ""
        _wait()
        make = aggregate_table if format == "table" else aggregate_json
        text = make(record.events(from_mark=True), sort_by, ascending)
        if reset:
            record.mark()
        return text


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Old name of ``set_config``; ``mode`` is ``"symbolic"``, ``"imperative"`` or ``"all"``."""
    warnings.warn("profiler.profiler_set_config() is deprecated, use set_config()", stacklevel=2)
    modes = ("symbolic", "imperative", "api", "memory", "all")
    if mode not in modes:
        raise ValueError_(f"profiler_set_config: mode={mode!r} given, one of {modes} expected")
    flags = {f"profile_{name}": name == mode for name in modes}
    set_config(filename=filename, **flags)


def profiler_set_state(state: str = "stop") -> None:
    """Old name of ``set_state``."""
    warnings.warn("profiler.profiler_set_state() is deprecated, use set_state()", stacklevel=2)
    set_state(state)


def dump_profile() -> None:
    """Old name of ``dump``."""
    warnings.warn("profiler.dump_profile() is deprecated, use dump()", stacklevel=2)
    dump(True)


def set_kvstore_handle(handle: Any) -> None:
    """Name the kvstore whose servers are profiled: nothing to do for workers."""


def _autostart() -> None:
    if os.environ.get("MXNET_PROFILER_AUTOSTART", "0") in ("", "0"):
        return
    text = os.environ.get("MXNET_PROFILER_MODE", "15")
    if not text.isdigit():
        raise ValueError_(f"MXNET_PROFILER_MODE={text!r} given, a sum of 1, 2, 4 and 8 expected")
    bits = int(text) or 1
    names = ("profile_symbolic", "profile_imperative", "profile_api", "profile_memory")
    set_config(**{name: bool(bits >> i & 1) for i, name in enumerate(names)})
    set_state("run")
    atexit.register(lambda: None if _finished else dump())
