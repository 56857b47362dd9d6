"""Record files of pictures for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mxlite import recordio


def write_records(
    folder: Path, pictures: Iterable[Any], labels: Any = None, png: bool = False
) -> str:
    """Write `a.rec` and `a.idx` and return the path of the former.

    Pictures are encoded ones, or arrays in the order blue, green, red; labels are their numbers
    unless others are given.
    """
    with recordio.MXIndexedRecordIO(str(folder / "a.idx"), str(folder / "a.rec"), "w") as file:
        for i, picture in enumerate(pictures):
            header = recordio.IRHeader(0, float(i) if labels is None else labels[i], i, 0)
            if isinstance(picture, bytes):
                record = recordio.pack(header, picture)
            else:
                record = recordio.pack_img(header, picture, img_fmt=".png" if png else ".jpg")
            file.write_idx(i, record)
    return str(folder / "a.rec")
