"""Prints the contents of a record file: ``python -m mxlite.tools.recinfo FILE``.

Counts records, sums up sizes, labels and image formats, and checks every record: its framing, its
header and the header of its image, with ``--decode`` the whole image. Damaged records are
listed with their offsets and skipped, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .. import _core
from .._files.native import native_name
from .._progress import Progress
from ..base import MXNetError, RecordError
from ..recordio import unpack


def _records(path: str, problems: list[str]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number, offset, record) of the undamaged records."""
    reader = _core.RecordReader(native_name(path))
    number = 0
    while True:
        offset = reader.tell()
        try:
            record = reader.next()
        except RecordError as error:
            problems.append(str(error))
            number += 1
            continue
        if record is None:
            return
        yield number, offset, record
        number += 1


def _look(path: str, decode: bool, item: tuple[int, int, bytes]) -> dict[str, Any]:
    """Return a description of one record, or of its damage."""
    number, offset, record = item
    found: dict[str, Any] = {"bytes": len(record), "id": None}
    name = f"record file {path!r}: record {number} at offset {offset}"
    try:
        header, image = unpack(record)
        found["id"] = header.id
        found["labels"] = np.atleast_1d(header.label)
        if not image:
            found["image"] = None
            return found
        height, width, channels = _core.image_info(image, name)
        kind = "PNG" if image[:4] == b"\x89PNG" else "JPEG"
        found["image"] = kind, height, width, channels
        if decode:
            _core.decode_image(image, channels=channels, name=name)
    except RecordError as error:
        text = str(error)
        found["problem"] = text if text.startswith(name) else f"{name}: {text}"
    return found


def inspect(path: str, decode: bool = False, threads: int = 1) -> dict[str, Any]:
    """Return a summary of a record file."""
    framing: list[str] = []
    content: list[str] = []
    sizes: list[int] = []
    ids: list[int] = []
    labels: list[np.ndarray[Any, Any]] = []
    formats: Counter[str] = Counter()
    sides: list[tuple[int, int]] = []
    name = os.path.basename(path)
    with Progress(None, name, unit="record") as progress, ThreadPoolExecutor(threads) as pool:
        items = _records(path, framing)
        while True:
            block = list(itertools.islice(items, 64 * threads))
            if not block:
                break
            for found in pool.map(lambda item: _look(path, decode, item), block):
                sizes.append(found["bytes"])
                if "problem" in found:
                    content.append(found["problem"])
                    continue
                ids.append(found["id"])
                labels.append(found["labels"])
                if found["image"] is None:
                    formats["no image"] += 1
                else:
                    kind, height, width, channels = found["image"]
                    formats[f"{kind}, {channels} channels"] += 1
                    sides.append((height, width))
            progress.add(len(block))
    return {
        "file": path,
        "file_bytes": os.path.getsize(path),
        "records": len(ids),
        "bad": framing + content,
        "record_bytes": _spread(sizes),
        "ids": _spread(ids),
        "duplicate_ids": len(ids) - len(set(ids)),
        "label_widths": dict(Counter(len(label) for label in labels)),
        "labels": _label_summary(labels),
        "images": dict(formats),
        "height": _spread([side[0] for side in sides]),
        "width": _spread([side[1] for side in sides]),
    }


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {
        "min": float(np.min(values)),
        "median": float(np.median(values)),
        "max": float(np.max(values)),
        "sum": float(np.sum(values)),
    }


def _label_summary(labels: Sequence[np.ndarray[Any, Any]]) -> dict[str, Any] | None:
    """Return the count of each label if all are single integers, else the range of the labels."""
    if not labels:
        return None
    first = np.array([label[0] for label in labels if len(label)])
    if all(len(label) == 1 for label in labels) and (first == np.floor(first)).all():
        counts = Counter(first.astype(np.int64).tolist())
        return {"classes": len(counts), "counts": {str(k): counts[k] for k in sorted(counts)}}
    everything = np.concatenate(labels)
    return {"min": float(everything.min()), "max": float(everything.max())}


def _text(info: dict[str, Any]) -> str:
    def spread(name: str, unit: str = "") -> str:
        values = info[name]
        if values is None:
            return "none"
        return f"{values['min']:g} to {values['max']:g}{unit}, median {values['median']:g}"

    lines = [
        f"{info['file']}: {info['file_bytes']} bytes",
        f"records: {info['records']} good, {len(info['bad'])} bad",
        f"record size: {spread('record_bytes', ' bytes')}",
        f"ids: {spread('ids')}, {info['duplicate_ids']} of them again",
        "images: " + (", ".join(f"{n} {kind}" for kind, n in info["images"].items()) or "none"),
        f"height: {spread('height')}",
        f"width: {spread('width')}",
        "labels per record: "
        + (", ".join(f"{w} ({n} records)" for w, n in info["label_widths"].items()) or "none"),
    ]
    labels = info["labels"]
    if labels is not None and "counts" in labels:
        counts = list(labels["counts"].items())
        shown = ", ".join(f"{label}: {n}" for label, n in counts[:20])
        rest = f", and {len(counts) - 20} more" if len(counts) > 20 else ""
        lines.append(f"labels: {labels['classes']} classes ({shown}{rest})")
    elif labels is not None:
        lines.append(f"labels: {labels['min']:g} to {labels['max']:g}")
    lines += [f"bad: {problem}" for problem in info["bad"]]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(prog="recinfo", description="What is in a record file.")
    parser.add_argument("file", help="the .rec file")
    parser.add_argument("--decode", action="store_true", help="decode every image too")
    parser.add_argument("--num-thread", type=int, default=1, help="threads that check images")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        info = inspect(options.file, options.decode, max(options.num_thread, 1))
    except (OSError, MXNetError) as error:
        print(f"recinfo: {error}", file=sys.stderr)
        return 1
    print(json.dumps(info, indent=1) if options.json else _text(info))
    return 1 if info["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
