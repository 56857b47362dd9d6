"""Saves and loads the state of a training, and keeps the last checkpoints."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..base import FileFormatError, MissingFileError, MXNetError, ValueError_, suggestion
from ..gluon.block import Block
from ..gluon.trainer import Trainer
from ..optimizer.states import copied
from ..random import prepare_random_state, random_state
from .format import UNREADABLE, describe_file, read_file, write_file
from .objects import Apply, finish_block, prepare, state_of, state_of_kind

__all__ = ["CheckpointManager", "load", "save", "verify"]

Path = Any
_RANDOM = "random state"


def save(path: Path, objects: Mapping[str, Any] | None = None, **named: Any) -> int:
    """Save objects, values and the states of the random generators into one file.

    Optimizer states of a Trainer are stored under the structural names of the parameters in the
    Blocks of the same call, so that they also load if automatic layer names differ.

    Parameters
    ----------
    path : str or path
        Replaced only after everything is on the disk.
    objects : mapping of str to object, optional
        Objects whose names are not valid keywords.
    **named
        Blocks, a Trainer, a Module, iterators, a DataLoader, metrics, schedulers, objects with
        ``state_dict`` and ``load_state_dict``, and plain values: numbers, strings, arrays and
        containers of them.

    Returns
    -------
    int
        Size of the file in bytes.

    Raises
    ------
    FileAccessError
        If the file cannot be written; an existing file is then unchanged.
    NotSupportedError
        For a value that cannot be saved.

    Examples
    --------
    >>> checkpoint.save("run.ckpt", net=net, trainer=trainer, data=loader, epoch=3)
    """
    tree: dict[str, Any] = {"kinds": {}, "states": {}, _RANDOM: random_state()}
    values = {**(objects or {}), **named}
    blocks = {name: value for name, value in values.items() if isinstance(value, Block)}
    for name, value in values.items():
        tree["kinds"][name], tree["states"][name] = state_of(value, blocks)
    return write_file(os.fspath(path), tree)


def load(
    path: Path,
    objects: Mapping[str, Any] | None = None,
    *,
    restore_random: bool = True,
    **named: Any,
) -> dict[str, Any]:
    """Restore the states of objects and return the plain values; on error, change nothing.

    The whole file is compared with the objects before any object changes. Objects that check
    their states in ``load_state_dict`` are restored first; if one of them raises, those restored
    before it get their previous states back.

    Parameters
    ----------
    path : str or path
    objects : mapping of str to object, optional
        Objects whose names are not valid keywords.
    restore_random : bool
        Whether to restore the random generators as well.
    **named
        Objects of the same structure as those that were saved, under the same names. Others in the
        file are not restored. Parameters of a Trainer that belong to none of the Blocks are matched
        by name, or in the order of their names if those differ.

    Returns
    -------
    dict
        The plain values by name.

    Raises
    ------
    MissingFileError, FileAccessError
        If the file cannot be read.
    FileFormatError
        If the file is damaged, or has no object of that name, or the saved object has another kind,
        other parameters, or another class of optimizer, metric or scheduler.
    ShapeError
        If a parameter has another shape.
    ValueError
        If a saved position belongs to other data, another batch size or another order.

    Examples
    --------
    >>> state = checkpoint.load("run.ckpt", net=net, trainer=trainer, data=loader)
    >>> for epoch in range(state["epoch"], 10):
    ...     for batch in loader:
    """
    path = os.fspath(path)
    tree = read_file(path)
    parts = ("kinds", "states", _RANDOM)
    if not isinstance(tree, dict) or not all(isinstance(tree.get(p), dict) for p in parts):
        raise FileFormatError(f"checkpoint: file {path!r} is not a checkpoint")
    kinds, states = tree["kinds"], tree["states"]
    if kinds.keys() != states.keys():
        raise FileFormatError(
            f"checkpoint: file {path!r}: the objects with a kind must be those with a state, got "
            f"{[*kinds][:9]} and {[*states][:9]}"
        )
    steps: list[tuple[int, str, Any, Apply]] = []  # order of execution, source, object, function
    values = {**(objects or {}), **named}
    blocks = {name: value for name, value in values.items() if isinstance(value, Block)}
    for name, value in values.items():
        if state_of_kind(value) == "value":
            raise ValueError_(
                f"checkpoint: {name} must be an object with a state, got {type(value).__name__}; "
                "load returns plain values instead of restoring them"
            )
        if name not in kinds:
            raise FileFormatError(
                f"checkpoint: file {path!r} has no {name!r}, it has "
                f"{', '.join(map(repr, kinds)) or 'nothing'}{suggestion(name, kinds)}"
            )
        source = f"checkpoint: file {path!r}, {name!r}"
        with _named(source):
            step = prepare(value, kinds[name], states[name], source, blocks)
        if kinds[name] == "block":  # networks come before the trainers that refer to them
            finish = functools.partial(finish_block, value, states[name])
            steps += [(1, source, value, step), (3, source, value, finish)]
        else:
            checks_itself = kinds[name] == "state_dict" and not isinstance(value, Trainer)
            steps.append((0 if checks_itself else 2, source, value, step))
    restore = prepare_random_state(tree[_RANDOM], f"checkpoint: file {path!r}")
    changed: list[tuple[Any, Any]] = []
    try:
        for order, source, value, step in sorted(steps, key=lambda entry: entry[0]):
            if order == 0:
                changed.append((value, copied(value.state_dict())))
            with _named(source):
                step()
    except BaseException:
        for value, before in reversed(changed):
            value.load_state_dict(before)
        raise
    if restore_random:
        restore()
    return {name: states[name] for name, kind in kinds.items() if kind == "value"}


@contextlib.contextmanager
def _named(source: str) -> Iterator[None]:
    """Add the file and the entry to errors about a state."""
    try:
        yield
    except MXNetError as error:
        if source in str(error):
            raise
        raise type(error)(f"{source}: {error}") from error
    except UNREADABLE as error:
        raise FileFormatError(f"{source}: the state is not understood: {error!r}") from error


def verify(path: Path) -> dict[str, Any]:
    """Check every byte of a file and list its contents.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict
        ``saved``, ``bytes`` and ``arrays``: name to (type, shape).

    Raises
    ------
    MissingFileError, FileAccessError, FileFormatError
        As `load`.
    """
    return describe_file(os.fspath(path))


class CheckpointManager:
    """Keeps the last checkpoints of one training in a folder.

    A new checkpoint is read back and checked before an old one is deleted, so the folder always has
    a valid one, even if the process is killed. Only one process may write into a folder.

    Parameters
    ----------
    folder : str or path
        Made if it does not exist.
    prefix : str
        Prefix of the file names.
    keep : int
        Number of checkpoints to keep.
    keep_every : int, optional
        Checkpoints whose step is a multiple of this number are never deleted.

    Examples
    --------
    >>> manager = CheckpointManager("checkpoints", keep=3)
    >>> state = manager.load_latest(net=net, trainer=trainer, data=loader) or {"step": 0}
    >>> ...
    >>> manager.save(step, net=net, trainer=trainer, data=loader)
    """

    def __init__(
        self,
        folder: Path,
        prefix: str = "checkpoint",
        keep: int = 3,
        keep_every: int | None = None,
    ) -> None:
        if keep < 1:
            raise ValueError_(f"CheckpointManager: keep must be 1 or more, got {keep}")
        if keep_every is not None and keep_every < 1:
            raise ValueError_(f"CheckpointManager: keep_every must be 1 or more, got {keep_every}")
        if not prefix or os.path.basename(prefix) != prefix:
            raise ValueError_(f"CheckpointManager: prefix must be a file name, got {prefix!r}")
        self.folder = os.fspath(folder)
        self.prefix = prefix
        self.keep = keep
        self.keep_every = keep_every
        os.makedirs(self.folder, exist_ok=True)
        self._names = re.compile(re.escape(prefix) + r"-(\d{10,})\.ckpt")

    def path(self, step: int) -> str:
        """Return the path of a step's checkpoint."""
        return os.path.join(self.folder, f"{self.prefix}-{step:010d}.ckpt")

    def steps(self) -> list[int]:
        """Return the steps that have a file, in order."""
        found = (self._names.fullmatch(name) for name in os.listdir(self.folder))
        return sorted(int(match[1]) for match in found if match)

    def save(self, step: int, objects: Mapping[str, Any] | None = None, **named: Any) -> str:
        """Save a checkpoint, check it, then delete old ones; see the function `save`.

        Parameters
        ----------
        step : int
            0 or more; saved as the value ``step``.
        objects, **named
            As in the function `save`.

        Returns
        -------
        str
            The file's path.
        """
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError_(
                f"CheckpointManager: step must be an integer of 0 or more, got {step!r}"
            )
        path = self.path(step)
        save(path, {**(objects or {}), "step": step}, **named)
        verify(path)
        self._clean(step)
        return path

    def _clean(self, newest: int) -> None:
        """Delete old checkpoints, and temporary files of a killed process."""
        older = [step for step in self.steps() if step < newest]
        for step in older[: len(older) - self.keep + 1] if len(older) >= self.keep else []:
            if self.keep_every is None or step % self.keep_every:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path(step))
        for name in os.listdir(self.folder):
            if name.startswith(f"{self.prefix}-") and re.search(r"\.ckpt\.\d+-\w+\.tmp$", name):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.folder, name))

    def load(
        self,
        step: int,
        objects: Mapping[str, Any] | None = None,
        *,
        restore_random: bool = True,
        **named: Any,
    ) -> dict[str, Any]:
        """Load the checkpoint of a step; see the function `load`."""
        return load(self.path(step), objects, restore_random=restore_random, **named)

    def load_latest(
        self,
        objects: Mapping[str, Any] | None = None,
        *,
        restore_random: bool = True,
        **named: Any,
    ) -> dict[str, Any] | None:
        """Load the newest checkpoint that is not damaged.

        Parameters
        ----------
        objects, restore_random, **named
            As in the function `load`.

        Returns
        -------
        dict or None
            The plain values, among them ``step``; None if there is no checkpoint.

        Raises
        ------
        FileFormatError
            If all existing checkpoints are damaged, or the objects do not fit.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                verify(self.path(step))
            except (FileFormatError, MissingFileError) as error:
                logging.warning("%s; trying the one before", error)
                continue
            return self.load(step, objects, restore_random=restore_random, **named)
        if steps:
            raise FileFormatError(
                f"checkpoint: {self.folder!r} must have a complete checkpoint, got {len(steps)} "
                "damaged ones"
            )
        return None
