"""Published text files on this machine; nothing is downloaded."""

from __future__ import annotations

import os
import shutil
import warnings

from ..._files.checksum import check_sha1
from ..._files.packed import check_unpacked_size
from ..._files.saving import replacing_file
from ...base import FileFormatError, MissingFileError


def published_file(where: str, folder: str, name: str, archive: str, sha1: str) -> str:
    """Return the path of a published file; unpack its archive if only that exists."""
    path, packed = os.path.join(folder, name), os.path.join(folder, archive)
    if not os.path.isfile(path) and packed != path and os.path.isfile(packed):
        _unpack(packed, name, path)
    if not os.path.isfile(path):
        other = "" if packed == path else f" or {packed}"
        raise MissingFileError(
            f"{where}: no {name} on this machine, and mxlite does not download: expected "
            f"{path}{other}"
        )
    if not check_sha1(path, sha1):
        warnings.warn(
            f"{where}: {path} is not the published file, its SHA-1 checksum is not {sha1}",
            UserWarning,
            stacklevel=3,
        )
    return path


def _unpack(packed: str, name: str, path: str) -> None:
    import zipfile
    import zlib

    where = f"archive {packed!r}"
    try:
        with zipfile.ZipFile(packed) as files:
            for member in files.infolist():
                if os.path.basename(member.filename) == name:
                    check_unpacked_size(member.file_size, os.path.getsize(packed), where)
                    with files.open(member) as source, replacing_file(path) as target:
                        shutil.copyfileobj(source, target)
                    return
    except FileFormatError:
        raise
    except (
        zipfile.BadZipFile, zlib.error, EOFError, LookupError, NotImplementedError, RuntimeError,
        ValueError,
    ) as error:  # fmt: skip
        raise FileFormatError(f"{where} is damaged: {error}") from None
