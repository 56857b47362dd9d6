"""The result file of run.py: complete after every case, continued by the next call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from common import commit, machine, report, write_json


def configuration(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that must be equal in all calls that add to one file.

    Parameters
    ----------
    settings : dict
        Options on which the figures depend.

    Returns
    -------
    dict
        With machine and commit.
    """
    return {**settings, "machine": machine(), "commit": commit()}


def load(path: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Return the file of an earlier call, None if there is none.

    Parameters
    ----------
    path : Path
        The result file.
    wanted : dict
        The configuration of this call.

    Returns
    -------
    dict or None
        Content of the file.

    Raises
    ------
    SystemExit
        If the file is no result of run.py, or has another configuration; the message names the
        differences.
    """
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SystemExit(f"dlperf: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SystemExit(f"dlperf: {path} is not JSON: {error}") from None
    check_content(str(path), content)
    found = content.get("configuration", {})
    different = [
        f"{key}: {found.get(key)!r} there, {wanted.get(key)!r} here"
        for key in sorted({*found, *wanted})
        if found.get(key) != wanted.get(key)
    ]
    if different:
        raise SystemExit(
            f"dlperf: {path} holds results of another configuration ({'; '.join(different)}); "
            "give another file with --json, or remove it"
        )
    return content


# Parts of a result file, and of each of its cells, with their types.
_PARTS = {"settings": dict, "machine": dict, "cells": list, "peaks": dict}
_CELL = {"name": str, "case": dict, "math": str, "systems": dict, "ratios": dict, "reasons": dict}


def check_content(name: str, content: Any) -> None:
    """Raise SystemExit if a file's content is not what run.py writes.

    Parameters
    ----------
    name : str
        The file, for the message.
    content : object
        What its JSON holds.
    """
    if not isinstance(content, dict) or content.get("benchmark") != "dlperf":
        raise SystemExit(f"dlperf: {name} is no result file of dlperf/run.py")
    wrong = [key for key, kind in _PARTS.items() if not isinstance(content.get(key), kind)]
    for number, cell in enumerate([] if "cells" in wrong else content["cells"]):
        found = cell if isinstance(cell, dict) else {}
        wrong += [
            f"cells[{number}].{key}"
            for key, kind in _CELL.items()
            if not isinstance(found.get(key), kind)
        ]
    if wrong:
        raise SystemExit(
            f"dlperf: {name} is damaged: no {', '.join(wrong)}; remove it, or give another file"
        )


def check_target(path: Path) -> None:
    """Raise SystemExit if a result file cannot be written, before anything is measured.

    Parameters
    ----------
    path : Path
        The file; its folder is made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise SystemExit(f"dlperf: {path} cannot be written: {error.strerror}") from None
    if path.is_dir():
        raise SystemExit(f"dlperf: --json must be a file, got the folder {path}")


def save(path: Path, settings: dict[str, Any], content: dict[str, Any]) -> None:
    """Write the file; an earlier one is replaced by the complete new one.

    Parameters
    ----------
    path : Path
        The result file.
    settings : dict
        Options on which the figures depend.
    content : dict
        ``configuration``, ``cells``, ``peaks``, ``missing`` and ``command``.
    """
    entries = [
        {**figures, "case": cell["name"], "system": name, "math": cell["math"]}
        for cell in content["cells"]
        for name, figures in cell["systems"].items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, report("dlperf", settings, entries, **content))
