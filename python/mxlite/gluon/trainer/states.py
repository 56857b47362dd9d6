"""States of a trainer in files and checkpoints."""

from __future__ import annotations

import os
from typing import Any

from ... import optimizer as opt
from ..._files.likeness import check_class, check_like
from ..._files.saving import replacing_file
from ...base import FileFormatError, MXNetError, NotSupportedError
from ...kvstore.base import read_states
from ...ndarray import NDArray
from ...optimizer.states import (
    bytes_of_tree,
    copied,
    parsed_states,
    prepare_states,
    states_from_tree,
    states_tree,
)
from ...parallel.replicas import Replicas, tell_shards
from ...parallel.zero import StateShards
from ..parameter import Parameter
from .checks import TrainerModeError, warn_of_options
from .state_matching import arranged, described
from .updates import has_grad

__all__ = ["TrainerStates"]


class TrainerStates:
    """Base of `Trainer`: saves and loads options, counts and states of the optimizer."""

    _params: list[Parameter]
    _optimizer: opt.Optimizer
    _updaters: list[opt.Updater]
    _kvstore: Any
    _distributed: bool
    _update_on_kvstore: bool | None
    _amp_loss_scaler: Any
    _given: dict[str, Any]
    _state_shards: StateShards | None = None
    _replicas: Replicas | None = None
    _kv_initialized: bool
    _lost_states = False  # other ranks had states of parameters that this one updates now

    def _ready(self) -> None:
        raise NotImplementedError

    def _settle(self) -> None:
        raise NotImplementedError

    def save_states(self, fname: str | os.PathLike[str]) -> None:
        """Save the optimizer's options, counts and states.

        With ``zero=1`` or sharded parameters all ranks call this, and each writes its file: the
        states of all parameters, whole, as one process would write them.

        Parameters
        ----------
        fname : str or path
            Replaced only after everything was written. The format is mxlite's own, with a
            checksum and without pickle.

        Raises
        ------
        FileAccessError
            If the file cannot be written.
        """
        self._ready()
        self._refuse_distributed("save")
        self._settle()
        content = bytes_of_tree({**self._tree(0), "parameters": described(self._params)})
        with replacing_file(os.fspath(fname)) as stream:
            stream.write(content)

    def load_states(self, fname: str | os.PathLike[str]) -> None:
        """Load states written by `save_states` or pickled by MXNet 1.x.

        Parameters of a file of `save_states` are found by name, or in the order of their names if
        those differ. A pickle of 1.x has none: its order must be that of this trainer.

        Parameters
        ----------
        fname : str or path

        Raises
        ------
        MissingFileError
            If there is no such file.
        FileFormatError
            If it is truncated, damaged, something else, or of a trainer with other parameters.
        ShapeError
            If a state does not have the shape of its parameter; nothing has changed then.
        """
        content = read_states(fname)
        self._ready()
        self._refuse_distributed("load")
        self._settle()
        source = f"file {os.fspath(fname)!r}"
        tree = parsed_states(content, self._optimizer, source)
        self._restore([tree], tree.get("parameters"), source)

    def _refuse_distributed(self, what: str) -> None:
        local = isinstance(getattr(self._kvstore, "_updater", None), opt.Updater)
        if self._distributed and self._update_on_kvstore and not local:
            raise TrainerModeError(
                f"Cannot {what} trainer states when the optimizer runs in the distributed store: "
                "they live on the servers"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return optimizer, states of all contexts and loss scale, for a checkpoint.

        Returns
        -------
        dict
            Numbers, strings, arrays and containers of them; the arrays are the trainer's own.
            ``parameters`` has names and shapes in the order in which the states are numbered.
        """
        self._ready()
        self._refuse_distributed("save")
        self._settle()
        scaler = self._amp_loss_scaler
        return {
            "contexts": [self._tree(i) for i in range(len(self._updaters))],
            "parameters": described(self._params),
            "loss_scaler": None if scaler is None else dict(vars(scaler)),
            "given": self._given,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, of this trainer or of one with other names.

        The optimizer gets the saved options. A warning names each option that this program gave to
        the trainer with another value than the program that saved it.

        Parameters
        ----------
        state : dict

        Raises
        ------
        FileFormatError
            If it is the state of a trainer with other parameters or another class of optimizer.
        ShapeError
            If a state does not have the shape of its parameter.
        """
        self._ready()
        self._refuse_distributed("load")
        self._settle()
        self._check_state(state, "the state of a trainer")
        warn_of_options(self._given, state)
        trees = [copied(tree) for tree in state["contexts"]]
        self._restore(trees, state.get("parameters"), "the state of a trainer")
        if self._amp_loss_scaler is not None and state["loss_scaler"] is not None:
            vars(self._amp_loss_scaler).update(state["loss_scaler"])

    def _check_state(self, state: Any, source: str) -> None:
        """Raise if a state does not fit; its parameters are numbered as in this trainer."""
        own: dict[str, Any] = {"contexts": [], "loss_scaler": None}
        for key, value in own.items():
            check_like(state.get(key), value, f"{source}: {key!r}")
        trees = state["contexts"]
        for i, tree in enumerate(trees or [None]):
            saved = tree.get("optimizer", i) if isinstance(tree, dict) else i
            if not isinstance(saved, type(None) if i else dict):
                raise FileFormatError(f"{source}: its states of context {i} are not understood")
            if saved is not None:
                check_class(source, "optimizer", saved.get("name"), self._optimizer)
            prepare_states(tree, self._optimizer, source)
        if state.get("given") is not None:  # files of older versions have none
            check_like(state["given"], {}, f"{source}: 'given'")
        if self._amp_loss_scaler is not None and state["loss_scaler"] is not None:
            scaler = dict(vars(self._amp_loss_scaler))
            check_like(state["loss_scaler"], scaler, f"{source}: 'loss_scaler'", whole=False)

    def _restore(self, trees: list[dict[str, Any]], saved: Any, source: str) -> None:
        """Take over options and states by context, whose arrays become the trainer's own."""
        trees = arranged(trees, saved, self._params, self._optimizer, f"load_states: {source}")
        for i, updater in enumerate(self._updaters):
            own = trees[i] if i < len(trees) else copied(trees[0])
            states, optimizer = states_from_tree(own, self._optimizer, source)
            updater.states = self._own_states(states)
            if optimizer is not None:
                self._optimizer = optimizer
        self._share_optimizer()

    def _tree(self, context: int) -> dict[str, Any]:
        """Return options and states of a context, for all parameters and whole."""
        optimizer = None if context else self._optimizer
        tree = states_tree(self._updaters[context].states, optimizer)
        tree["states"] = {
            i: _whole(self._params[i], state, self._optimizer._row_states)
            if i < len(self._params)
            else state
            for i, state in tree["states"].items()
        }
        return tree if self._state_shards is None else self._state_shards.merged(tree)

    def _forget_groups(self) -> None:
        """Divide the updates again: the job has been formed again, perhaps by other ranks."""
        if self._replicas is None:
            return
        self._kv_initialized, self._replicas = False, None
        if self._state_shards is not None:
            self._state_shards, self._lost_states = None, True

    def _check_states(self) -> None:
        """Raise if states that the next update needs were on other ranks."""
        if self._lost_states:
            raise MXNetError(
                "Trainer: the job was formed again and its optimizer states were divided among the "
                "ranks before; call load_states or load_state_dict before the next step"
            )

    def _own_states(self, states: dict[Any, Any]) -> dict[Any, Any]:
        """Return what this rank keeps of the whole states of all parameters."""
        self._lost_states = False
        if self._state_shards is not None:
            entries = [
                (i, p) for i, p in enumerate(self._params) if has_grad(p) and p._data is not None
            ]
            self._state_shards.assign(entries)
            states = self._state_shards.own_states(states, entries)
        for i, param in enumerate(self._params):
            if i in states and param.shard is not None:
                states[i] = _part(param, states[i], self._optimizer._row_states)
        return states

    def _share_optimizer(self) -> None:
        self._optimizer.param_dict = dict(enumerate(self._params))
        tell_shards(self._params, self._optimizer)
        for updater in self._updaters:
            updater.optimizer = self._optimizer


def _whole(param: Parameter, state: Any, by_row: bool) -> Any:
    """Return the state of a whole parameter from that of this rank's shard.

    Parameters
    ----------
    param : Parameter
    state : NDArray, tuple or None
    by_row : bool
        States have one value for each row of the parameter, and shape (rows, 1).
    """
    shard = param._shard
    if shard is None or shard.group().size == 1 or state is None:
        return state
    if isinstance(state, (tuple, list)):
        # With multi_precision, rows have states beside the float32 copy of the weight.
        ways = [False, True] if by_row else [False] * len(state)
        return tuple(_whole(param, part, way) for part, way in zip(state, ways, strict=True))
    if not isinstance(state, NDArray):
        return state
    local, whole = param.local_shape or (), param.shape or ()
    if by_row:
        if shard.axis(whole) != 0:
            return state  # every rank has those of all rows
        local, whole = (local[0], 1), (whole[0], 1)
    if tuple(state.shape) != local:
        raise NotSupportedError(
            f"Trainer: the optimizer's state of sharded Parameter {param.name!r} has shape "
            f"{tuple(state.shape)}, expected that of its shard, {local}, to be saved as a whole"
        )
    return shard.gather(state, whole)


def _part(param: Parameter, state: Any, by_row: bool) -> Any:
    """Return the state of this rank's shard of a parameter from that of the whole one."""
    shard = param._shard
    if isinstance(state, (tuple, list)):
        ways = [False, True] if by_row else [False] * len(state)
        return tuple(_part(param, part, way) for part, way in zip(state, ways, strict=True))
    if shard is None or not isinstance(state, NDArray):
        return state
    whole = param.shape or ()
    if by_row:
        if shard.axis(whole) != 0:
            return state
        whole = (whole[0], 1)
    return shard.part(state) if tuple(state.shape) == whole else state
