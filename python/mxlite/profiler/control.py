"""Configuration and state of the profiler, and its two outputs."""

from __future__ import annotations

import atexit
import json
import os
import threading
import warnings
from typing import Any

from .. import _core
from ..base import NotSupportedError, TypeError_, ValueError_, suggestion
from .memory import WATCH
from .record import API, COMM, DEVICE, IO, OPERATOR, PASS, Entry, record
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
_OTHER = {"filename": "profile.json", "dump_period": 1.0}
_SORT_KEYS = ("total", "avg", "min", "max", "count")

_config: dict[str, Any] = {**_FLAGS, **_OTHER}
_lock = threading.Lock()
_finished = False  # True after a finished dump, until set_state("run")
_paused = False  # True after pause() stopped recording, so that resume() continues it
_named = False  # whether the last set_config() gave a file name
_written: tuple[str, int] | None = None  # the written file and its number of events
_writes_at_exit = False
_kvstore: Any = None  # store whose servers are profiled


def _of_servers(profile_process: str) -> bool:
    if profile_process not in ("worker", "server"):
        raise ValueError_(
            f"profiler: profile_process must be 'worker' or 'server', got {profile_process!r}"
        )
    return profile_process == "server"


def _tell_servers(name: str, text: str) -> None:
    if _kvstore is None:
        raise NotSupportedError(
            "profiler: profile_process='server' needs a kvstore with servers: start the job by "
            "launch.py -n 2 -s 2, and call mx.kv.create('dist_sync') first"
        )
    profile = getattr(_kvstore, "_profile_servers", None)
    if profile is None:
        raise NotSupportedError(
            "profiler: profile_process='server': the kvstore of type "
            f"{getattr(_kvstore, 'type', _kvstore)!r} has no servers; profile a worker, or start "
            "the job by launch.py -n 2 -s 2"
        )
    profile(name, text)


def set_config(**kwargs: Any) -> None:
    """Configure the profiler; options that are not given are reset to their defaults.

    Parameters
    ----------
    **kwargs
        ``filename`` (str, ``"profile.json"``), ``profile_all``, ``profile_symbolic``,
        ``profile_imperative``, ``profile_memory``, ``profile_api``, ``aggregate_stats`` (bool: for
        ``dumps``), ``continuous_dump`` (a named file is also written when recording starts and
        stops, and at exit), ``dump_period`` (ignored), ``profile_process`` (``"worker"``, or
        ``"server"``: the servers of a kvstore; their files begin with ``rank0_``, ...).

    Raises
    ------
    TypeError
        For an unknown name or a value of the wrong type.
    NotSupportedError
        For ``"server"`` without a kvstore that has servers; the other functions raise it, too.
    """
    known = [*_config, "profile_process"]
    for name, value in kwargs.items():
        if name not in known:
            raise TypeError_(
                f"profiler.set_config: unknown argument {name!r}{suggestion(name, known)}"
            )
        if name in _FLAGS and not isinstance(value, (bool, int)):
            raise TypeError_(f"profiler.set_config: {name} must be a bool, got {value!r}")
    if "filename" in kwargs:
        kwargs["filename"] = os.fspath(kwargs["filename"])
    if _of_servers(kwargs.pop("profile_process", "worker")):
        _tell_servers("config", json.dumps(kwargs))
        return
    global _named
    _named = "filename" in kwargs
    _config.update({**_FLAGS, **_OTHER, **kwargs})


def settings() -> dict[str, Any]:
    """Return the current options of `set_config`, by name."""
    return dict(_config)


def _kinds() -> int:
    everything = bool(_config["profile_all"])
    bits = 1 << IO | 1 << COMM
    if everything or _config["profile_symbolic"] or _config["profile_imperative"]:
        bits |= 1 << OPERATOR | 1 << DEVICE
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
        New state. ``"stop"`` waits for work in flight, so that it is recorded.
    profile_process : {"worker", "server"}
        The profiler of this process, or those of the kvstore's servers.

    Raises
    ------
    ValueError
        For another state.
    """
    global _paused
    if state not in ("run", "stop"):
        raise ValueError_(f"profiler.set_state: state must be 'run' or 'stop', got {state!r}")
    if _of_servers(profile_process):
        if state == "stop":
            _wait_for_all()  # wait until the servers have processed the pushes of this worker
        _tell_servers("state", state)
        return
    with _lock:
        _paused = False
        if state == "run":
            _start()
        else:
            _wait()
            _stop()
        _write_by_the_way()


def _start() -> None:
    global _finished
    _finished = False
    record.running = True
    memory = bool(_config["profile_all"] or _config["profile_memory"])
    _core.profiler_start(_kinds(), memory)
    WATCH.set(memory)
    _write_at_exit()


def _stop() -> None:
    _core.profiler_stop()
    record.running = False
    WATCH.set(False)


def _write_by_the_way() -> None:
    """Write the file that set_config names. 1.x does so every second, and programs rely on it."""
    if not (_named and _config["continuous_dump"]) or _finished:
        return
    try:
        _write()
    except OSError as error:  # only dump() raises such an error
        warnings.warn(f"profiler: the trace cannot be written: {error}", stacklevel=3)


def _write_at_exit() -> None:
    """Write the trace when a program exits while recording, as in 1.x."""
    global _writes_at_exit
    process = os.getpid()

    def write() -> None:
        if os.getpid() == process and not _finished:
            _wait()
            _write_by_the_way()

    if not _writes_at_exit:
        _writes_at_exit = True
        atexit.register(write)


def _events(from_mark: bool = False) -> list[Entry]:
    """Return the recorded events; warn if events were lost."""
    events = record.events(from_mark)
    if lost := record.take_dropped():
        warnings.warn(
            f"profiler: {lost} events were lost, because a thread recorded more than 4 million of "
            "them at once: call dump or dumps more often, or pause() between the steps of interest",
            stacklevel=4,
        )
    return events


def _write() -> None:
    global _written
    path, events = str(_config["filename"]), _events()
    if _written == (path, len(events)) and os.path.exists(path):
        return
    write_trace(path, events)
    _written = (path, len(events))


def _wait() -> None:
    if _core.profiler_runs():
        _wait_for_all()


def _wait_for_all() -> None:
    try:
        _core.waitall()
    # Reading the value raises the error, but the trace is written anyway.
    except RuntimeError as error:
        warnings.warn(f"profiler: work in flight failed: {error}", stacklevel=3)


def pause(profile_process: str = "worker") -> None:
    """Stop recording until ``resume``; ``set_state`` also ends the pause."""
    global _paused
    if _of_servers(profile_process):
        _tell_servers("state", "pause")
        return
    with _lock:
        _paused = _paused or record.running
        _stop()


def resume(profile_process: str = "worker") -> None:
    """Continue after ``pause``; no effect if ``pause`` has not stopped recording."""
    global _paused
    if _of_servers(profile_process):
        _tell_servers("state", "resume")
        return
    with _lock:
        if _paused:
            _start()
        _paused = False


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write what was recorded since the last finished dump to ``filename``.

    Parameters
    ----------
    finished : bool
        Stop recording and drop the written events; otherwise a later dump writes them again.
    profile_process : {"worker", "server"}
        The profiler of this process, or those of the servers.

    Raises
    ------
    OSError
        If the file cannot be written; an existing file is then unchanged.
    """
    global _finished, _paused, _written
    if _of_servers(profile_process):
        _wait_for_all()
        _tell_servers("dump", "1" if finished else "0")
        return
    with _lock:
        _wait()
        if finished:
            _paused = False
            _stop()
        _write()
        if finished:
            _finished = True
            _written = None
            record.clear()


def is_finished() -> bool:
    """Return whether a finished dump has ended recording."""
    return _finished


def dumps(
    reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False
) -> str:
    """Return counts and times by operator as text; empty without ``aggregate_stats``.

    Parameters
    ----------
    reset : bool
        Reset all counts to 0 afterwards.
    format : {"table", "json"}
        Readable tables or a JSON object; times in ms, memory in kB.
    sort_by : {"total", "avg", "min", "max", "count"}
        Column by which rows are sorted.
    ascending : bool
        Sort in ascending order.

    Returns
    -------
    str
        The text.

    Raises
    ------
    ValueError
        For another format or column.
    """
    if format not in ("table", "json"):
        raise ValueError_(f"profiler.dumps: format must be 'table' or 'json', got {format!r}")
    if sort_by not in _SORT_KEYS:
        raise ValueError_(f"profiler.dumps: sort_by must be one of {_SORT_KEYS}, got {sort_by!r}")
    with _lock:
        if not _config["aggregate_stats"]:
            return ""
        _wait()
        make = aggregate_table if format == "table" else aggregate_json
        text = make(_events(from_mark=True), sort_by, ascending)
        if reset:
            record.mark()
        return text


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Old name of ``set_config``; ``mode`` is ``"symbolic"``, ``"imperative"`` or ``"all"``."""
    warnings.warn("profiler.profiler_set_config() is deprecated, use set_config()", stacklevel=2)
    modes = ("symbolic", "imperative", "api", "memory", "all")
    if mode not in modes:
        raise ValueError_(f"profiler_set_config: mode must be one of {modes}, got {mode!r}")
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
    """Set the kvstore, or its handle, whose servers ``profile_process="server"`` profiles.

    ``mx.kv.create`` calls this for a store with servers.
    """
    global _kvstore
    _kvstore = handle


def _autostart() -> None:
    role = os.environ.get("DMLC_ROLE")
    if os.environ.get("MXNET_PROFILER_AUTOSTART", "0") in ("", "0") or role == "scheduler":
        return
    text = os.environ.get("MXNET_PROFILER_MODE", "15")
    if not text.isdigit():
        raise ValueError_(f"MXNET_PROFILER_MODE must be a sum of 1, 2, 4 and 8, got {text!r}")
    bits = int(text) or 1
    names = ("profile_symbolic", "profile_imperative", "profile_api", "profile_memory")
    options: dict[str, Any] = {name: bool(bits >> i & 1) for i, name in enumerate(names)}
    if role == "server":  # a separate file, which does not overwrite the worker's
        options["filename"] = f"server{os.environ.get('MXLITE_PS_RANK', os.getpid())}_profile.json"
    set_config(**options)
    set_state("run")
    # Writes only if there are events, because launch.py inherits the variables but records nothing.
    atexit.register(lambda: None if _finished or not record.events() else dump())
