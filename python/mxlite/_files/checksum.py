"""Checksums of files."""

from __future__ import annotations

import os

from .whole import open_file


def check_sha1(filename: str | os.PathLike[str], sha1_hash: str) -> bool:
    """Return whether a file has the given SHA-1 checksum, in hexadecimal digits."""
    return sha1_of(filename) == sha1_hash


def sha1_of(filename: str | os.PathLike[str]) -> str:
    """Return the SHA-1 checksum of a file."""
    import hashlib

    digest = hashlib.sha1()
    with open_file(filename) as stream:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()
