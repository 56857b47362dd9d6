"""The state of a training in memory, which is committed, restored, and sent to new ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ... import ndarray as nd
from ...base import NotSupportedError, TypeError_, ValueError_
from ...comm.basics import rank
from ...gluon.block import Block
from ...gluon.parameter import DeferredInitializationError, Parameter, ParameterDict
from ...gluon.trainer import Trainer
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...optimizer.states import copied
from ..functions import allgather_object, broadcast_object
from ..mpi_ops import broadcast_
from ..parameters import broadcast_parameters
from . import hosts


class Keeper(Protocol):
    """Stores commits outside of the job, for launchers that restart all processes after a loss."""

    def save(self, commits: int, content: Any) -> None:
        """Store a commit under its number."""

    def load(self) -> tuple[int, Any]:
        """Return number and content of the newest commit, or 0 and None."""


_keeper: Keeper | None = None


def keep_commits_in(place: Keeper) -> None:
    """Also store the commits of this process's states in ``place``."""
    global _keeper
    _keeper = place


def keeper() -> Keeper | None:
    """Return the object that stores commits, or None if only this job does."""
    return _keeper


class State:
    """Base of states; subclasses define `save`, `restore` and `sync`."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Call functions without arguments whenever the number of processes has changed.

        They run before `sync` and adapt learning rates and the like.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Adapt to the current processes; `run` calls this."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Save, then check whether processes wait to join.

        Raises
        ------
        HostsUpdatedInterrupt
            On all ranks, if processes wait to join.
        MXNetError
            If a process has been lost; the previous commit is kept.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise `HostsUpdatedInterrupt` on all ranks if processes wait to join."""
        hosts.check_updates()

    def save(self) -> None:
        """Copy the values that must survive the loss of a process."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restore the values that were saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Copy the values of the rank with the newest commit to all ranks."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapt to the current processes."""


class ObjectState(State):
    """Plain values, as attributes.

    Parameters
    ----------
    **kwargs
        Names and initial values, of types that `broadcast_object` supports, including NDArrays.
        The values must be the same on all ranks.

    Notes
    -----
    Matches ``horovod.common.elastic.ObjectState``. After a process was lost, ranks may have
    different commits; all ranks then use the newest commit.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._names = sorted(kwargs)
        for name in self._names:
            if name.startswith("_") or hasattr(type(self), name):
                raise ValueError_(f"{type(self).__name__}: {name!r} cannot be a state's attribute")
            setattr(self, name, kwargs[name])
        self._commits = 0  # number of commits, including those of ranks that this rank synced with
        self._saved = self._snapshot()

    def _content(self) -> dict[str, Any]:
        """Return all values without copying them."""
        return {"values": {name: getattr(self, name) for name in self._names}}

    def _take(self, content: dict[str, Any]) -> None:
        """Restore what `_content` returned here or on another rank."""
        for name, value in content["values"].items():
            setattr(self, name, value)

    def _snapshot(self) -> dict[str, Any]:
        content = _deep_copy(self._content())
        for array in _arrays_of(content):
            array.wait_to_read()  # raises if a collective failed because a rank was lost
        return content

    def save(self) -> None:
        """Copy all values; if one cannot be computed, raise and keep the previous copies."""
        self._saved = self._snapshot()
        self._commits += 1
        if _keeper is not None and rank() == 0:
            _keeper.save(self._commits, self._saved)

    def take_kept(self) -> None:
        """On rank 0, restore the keeper's newest commit; `sync` sends it to the other ranks.

        The commit was made before all ranks were started again.
        """
        commits, content = (0, {}) if _keeper is None or rank() != 0 else _keeper.load()
        if commits > self._commits:
            self._take(content)
            self._commits = commits

    def restore(self) -> None:
        """Restore the values that were saved last."""
        self._take(_deep_copy(self._saved))

    def sync(self) -> None:
        """Give all ranks the values of the lowest rank among those with the newest commit."""
        commits = allgather_object(self._commits, name="elastic.commits")
        root = commits.index(max(commits))
        content = _broadcast_tree(self._content() if rank() == root else None, root)
        if rank() != root:
            self._take(content)
        self._commits = max(commits)
        self._saved = self._snapshot()


class TrainState(ObjectState):
    """A network, its trainer, samplers and plain values.

    Parameters
    ----------
    net : Block or ParameterDict, optional
    trainer : Trainer, optional
        Its optimizer's states, counts and learning rate are part of the state.
    **kwargs
        Plain values as in `ObjectState`, and objects with ``state_dict`` and ``load_state_dict``,
        such as `ElasticSampler`; those with ``reset`` are reset when the job changes.

    Raises
    ------
    NotSupportedError
        For a trainer with ``zero=1``, or a network with sharded parameters.

    Notes
    -----
    The counterpart of ``horovod.torch.elastic.TorchState``. Parameters whose shape is not known yet
    are broadcast when their first forward pass initializes them.
    """

    def __init__(
        self,
        net: Block | ParameterDict | Mapping[str, Parameter] | None = None,
        trainer: Trainer | None = None,
        **kwargs: Any,
    ) -> None:
        if net is not None and not isinstance(net, (Block, ParameterDict, Mapping)):
            raise TypeError_(f"TrainState: net must be a Block, got {type(net).__name__}")
        if trainer is not None and not isinstance(trainer, Trainer):
            raise TypeError_(f"TrainState: trainer must be a Trainer, got {type(trainer).__name__}")
        self.net = net
        if trainer is not None and trainer.zero:
            raise NotSupportedError(
                "TrainState: the trainer has zero=1: a lost rank takes its optimizer states with "
                "it; use zero=0 in elastic training"
            )
        for name, param in self._params().items():
            if param.shard is not None:
                raise NotSupportedError(
                    f"TrainState: Parameter {name!r} is sharded: a lost rank takes its block with "
                    "it; save such networks with save_parameters and start the job again"
                )
        self.trainer = trainer
        self._handled = {
            name: value
            for name, value in kwargs.items()
            if hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
        }
        for name, value in self._handled.items():
            setattr(self, name, value)
        super().__init__(**{k: v for k, v in kwargs.items() if k not in self._handled})

    def _params(self) -> dict[str, Parameter]:
        if self.net is None:
            return {}
        return dict(
            (self.net.collect_params() if isinstance(self.net, Block) else self.net).items()
        )

    def _content(self) -> dict[str, Any]:
        params = {}
        for name, param in self._params().items():
            try:
                params[name] = param.list_data()[0]
            except DeferredInitializationError:
                continue
        return {
            **super()._content(),
            "params": params,
            "trainer": self.trainer.state_dict() if self.trainer is not None and params else None,
            "handled": {name: value.state_dict() for name, value in self._handled.items()},
        }

    def _take(self, content: dict[str, Any]) -> None:
        super()._take(content)
        params = self._params()
        for name, value in content["params"].items():
            if name not in params:
                raise ValueError_(
                    f"TrainState: another rank has a parameter {name!r}, this network has none"
                )
            params[name].set_data(value)
            # Initializes parameters that no forward pass has initialized yet.
            params[name]._finish_deferred_init()
            params[name].zero_grad()
        if self.trainer is not None and content["trainer"] is not None:
            self.trainer.load_state_dict(content["trainer"])
        for name, state in content["handled"].items():
            self._handled[name].load_state_dict(state)

    def sync(self) -> None:
        """Give all ranks the state of the lowest rank among those with the newest commit."""
        super().sync()
        deferred = {k: p for k, p in self._params().items() if k not in self._saved["params"]}
        if deferred:
            broadcast_parameters(deferred, root_rank=0, prefix="elastic.")

    def reset(self) -> None:
        """Adapt samplers to the current processes."""
        for value in self._handled.values():
            if hasattr(value, "reset"):
                value.reset()


def _deep_copy(tree: Any) -> Any:
    return copied(copy.deepcopy(tree, memo=_shared_arrays(tree)))


def _shared_arrays(tree: Any) -> dict[int, Any]:
    """Return a memo that makes deepcopy share arrays, which `copied` copies afterwards."""
    return {id(array): array for array in _arrays_of(tree)}


def _arrays_of(tree: Any) -> list[NDArray]:
    if isinstance(tree, NDArray):
        return [tree]
    if isinstance(tree, Mapping):
        return [array for value in tree.values() for array in _arrays_of(value)]
    if isinstance(tree, (list, tuple)):
        return [array for value in tree for array in _arrays_of(value)]
    return []


# Key of the placeholder for an array: {_ARRAY: (shape, dtype)}.
_ARRAY = "elastic array"


def _without_arrays(tree: Any, arrays: list[NDArray]) -> Any:
    if isinstance(tree, NDArray):
        arrays.append(tree)
        return {_ARRAY: (tree.shape, dtype_name(tree.dtype))}
    if isinstance(tree, dict):
        return {key: _without_arrays(value, arrays) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_without_arrays(value, arrays) for value in tree)
    return tree


def _with_arrays(tree: Any, arrays: list[NDArray]) -> Any:
    if isinstance(tree, dict):
        if set(tree) == {_ARRAY}:
            shape, dtype = tree[_ARRAY]
            arrays.append(nd.zeros(shape, dtype=dtype))
            return arrays[-1]
        return {key: _with_arrays(value, arrays) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_with_arrays(value, arrays) for value in tree)
    return tree


def _broadcast_tree(tree: Any, root: int) -> Any:
    """Return the root's containers on all ranks; arrays are broadcast, not pickled."""
    arrays: list[NDArray] = []
    frame = _without_arrays(tree, arrays) if rank() == root else None
    frame = broadcast_object(frame, root, name="elastic.state")
    if rank() != root:
        tree = _with_arrays(frame, arrays)
    else:
        arrays = [array.copy() for array in arrays]  # copies, because broadcast_ writes in place
    for number, array in enumerate(arrays):
        broadcast_(array, root, name=f"elastic.array.{number}")
    for array in arrays:
        array.wait_to_read()
    return tree
