"""Embedding tables on several processes of this machine."""

from __future__ import annotations

from pathlib import Path


def test_ranks_train_one_table(start, tmp_path: Path) -> None:
    """Jobs of other sizes read the files of the first one."""
    for ranks in (2, 1, 4):
        start("sharded_table.py", ranks, str(tmp_path), timeout=60)
    for name, files in (("fixed", 2), ("grows-1", 1), ("grows-4", 4)):
        assert len(list((tmp_path / name).iterdir())) == files
