"""Trainer: applies an optimizer to the parameters of a model."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import autograd
from ... import optimizer as opt
from ..._files.saving import replacing_file
from ..._typed_init import TypedInit
from ...base import MXNetError, TypeError_, ValueError_
from ...comm.groups import Group, group_of
from ...context import Context
from ...kvstore.base import KVStoreBase, read_states
from ...kvstore.choice import chosen_store
from ...kvstore.gradients import BucketStore, pushpull_all
from ...kvstore.names import checked_name
from ...ndarray import NDArray
from ...optimizer.settling import Settling
from ...optimizer.states import bytes_of_tree, copied, parsed_states, states_from_tree, states_tree
from ...optimizer.updater import Attempt
from ...parallel.agreement import check_agreement
from ...parallel.division import Division, own_state, whole_state
from ...parallel.replicas import shard_groups, tell_shards
from ...parallel.zero import StateShards, checked_stage, store_group
from ..parameter import Parameter, ParameterDict
from .checks import (
    BatchSizeWarning,
    StaleGradientWarning,
    TrainerModeError,
    check_state,
    checked_batch_size,
    checked_options,
    given_options,
    is_fresh,
    sparse_parts,
    warn_of_options,
)
from .state_matching import arranged, by_number, described
from .updates import StepArrays, checked_norm, has_grad, update_arrays

__all__ = ["StaleGradientWarning", "Trainer", "TrainerModeError"]


class Trainer(TypedInit):
    """Applies an optimizer to a set of parameters, on the contexts of one or several processes.

    Matches ``mxnet.gluon.Trainer``. Distributed stores sum over processes, so ``step`` takes the
    batch size of all workers together. A changed batch size or learning rate is sent to the
    optimizer of a distributed store of mxlite (1.x: an error). With ``ignore_stale_grad`` a
    parameter is not updated if no context has computed its gradient.

    Parameters
    ----------
    params : ParameterDict, dict or list of Parameter
        A dictionary is sorted by name, but its weights are updated in the order of the numbers in
        their names: dense9 before dense10. Nadam's schedule depends on this order.
    optimizer : str or Optimizer
    optimizer_params : dict, optional
        Arguments of the optimizer; only with a name.
    kvstore : str, KVStoreBase or None
        Sums the gradients of several contexts and processes, see `mx.kv.create`. With one
        context, a store is used only if an object is given or the type spans processes. None sums
        nothing: several contexts then train different copies, and `step` warns about this.
    compression_params : dict, optional
        See ``KVStore.set_gradient_compression``.
    update_on_kvstore : bool, optional
        True updates one copy in the store and sends it to all contexts; False sums gradients and
        lets each context update its own copy. None: True if the store can update.
    clip_global_norm : float, optional
        Scale all gradients of a step together, after the division by the batch size, to this
        2-norm if their norm is larger. A step whose norm is NaN or infinite changes no parameter.
    zero : {0, 1}
        1: each rank of a distributed store keeps the optimizer's states of some parameters and
        updates them, and sends the weights to the other ranks (stage 1 of ZeRO). The results have
        the same bits as those of 0. Parameters are assigned whole.
    """

    def __init__(
        self,
        params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
        optimizer: str | opt.Optimizer,
        optimizer_params: Mapping[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: Mapping[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
        *,
        clip_global_norm: float | None = None,
        zero: int = 0,
    ) -> None:
        order: list[int] | None = None
        if isinstance(params, (Mapping, ParameterDict)):
            named = dict(params.items())
            names = sorted(named)
            params, order = [named[name] for name in names], by_number(names)
        if not isinstance(params, (list, tuple)):
            raise ValueError_(
                f"First argument must be a list or dict of Parameters, got {type(params).__name__}."
            )
        self._params: list[Parameter] = []
        self._param2idx: dict[str, int] = {}
        for position, param in enumerate(params):
            if not isinstance(param, Parameter):
                raise ValueError_(
                    "First argument must be a list or dict of Parameters, got list of "
                    f"{type(param).__name__} (entry {position})."
                )
            self._param2idx[param.name] = position
            self._params.append(param)
            param._set_trainer(self)
        if isinstance(kvstore, str):
            checked_name(kvstore)
        elif kvstore is not None and not isinstance(kvstore, KVStoreBase):
            raise TypeError_(f"Trainer: kvstore must be KVStore, str or None, got {kvstore!r}")
        if kvstore is None and update_on_kvstore:
            raise ValueError_("Trainer: kvstore must not be None with update_on_kvstore=True")
        self._max_norm = checked_norm(clip_global_norm, update_on_kvstore)
        self._norm: NDArray | None = None
        self._compression_params = compression_params
        self._contexts: list[Context] | None = None
        options = checked_options(optimizer_params)
        scheduler = getattr(optimizer, "lr_scheduler", None)  # None if `optimizer` is a name
        self._given = given_options(options or {"lr_scheduler": scheduler})
        self._init_optimizer(optimizer, options)
        self._zero = checked_stage(zero, update_on_kvstore, self._optimizer)
        # True if states that this rank needs now were stored on other ranks.
        self._lost_states = False
        self._scale = float(self._optimizer.rescale_grad)
        # amp.init_trainer sets both: the loss scaler, and the value of _scale without loss scaling.
        self._amp_loss_scaler: Any = None
        self._amp_original_scale = self._scale
        self._updaters: list[opt.Updater] = []
        self._arrays = StepArrays(order)
        # Derived trainers, such as those of gluon-nlp, read this attribute.
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._distributed = False
        self._warned_of_copies = False
        self._reset_kvstore()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._optimizer!r}, {len(self._params)} parameters)"

    def _init_optimizer(self, optimizer: str | opt.Optimizer, options: dict[str, Any]) -> None:
        param_dict = dict(enumerate(self._params))
        if isinstance(optimizer, opt.Optimizer):
            if options:
                raise ValueError_(
                    "optimizer_params must be None if optimizer is an instance of Optimizer "
                    f"instead of str, got {options}"
                )
            self._optimizer = optimizer
            self._optimizer.param_dict = param_dict
        else:
            self._optimizer = opt.create(optimizer, param_dict=param_dict, **options)

    def _check_contexts(self) -> list[Context]:
        """Return the contexts, which must be the same for all parameters."""
        contexts: list[Context] | None = None
        for param in self._params:
            found = param.list_ctx()
            if contexts is not None and contexts != found:
                raise ValueError_(
                    "All Parameters must be initialized on the same set of contexts, but Parameter "
                    f"{param.name!r} is initialized on {found} while previous Parameters are "
                    f"initialized on {contexts}."
                )
            contexts = found
        return contexts or []

    def _reset_kvstore(self) -> None:
        """Drop the store; the next step makes a new one from the current parameter values."""
        self._kv_initialized = False
        self._kvstore: Any = None
        self._division: Division | None = None
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    def _value_was_set(self, param: Parameter) -> None:
        """Reset the store if it has a copy of a value that `Parameter.set_data` has replaced."""
        if self._update_on_kvstore and not any(p is param for p in self._params_to_init):
            if self._distributed:
                raise MXNetError(
                    f"Cannot reset distributed KVStore: the value of Parameter {param.name!r} was "
                    "set only in this process, but the store has the value that all workers train; "
                    "set values before the first step, or use update_on_kvstore=False"
                )
            self._reset_kvstore()

    def _init_kvstore(self) -> None:
        """Make store and updaters on first use, when the parameters are initialized."""
        self._contexts = self._check_contexts()
        count = max(len(self._contexts), 1)
        given = self._kvstore_params["update_on_kvstore"]
        sparse = {kind for p in self._params for kind in sparse_parts(p)}
        store, on_store = chosen_store(
            self._kvstore_params["kvstore"],
            count,
            [math.prod(param.shape or ()) for param in self._params if param._data is not None],
            needed=bool(given) or "weight" in sparse,
            optimizer=self._optimizer if given is None and not sparse else None,
        )
        if "weight" in sparse and given is False:
            raise ValueError_("Cannot set update_on_kvstore=False when sparse weights are present.")
        self._distributed = store is not None and (
            "dist" in store.type or store._spans_processes and on_store
        )
        if sparse == {"gradient"}:
            if self._distributed and given is False:
                raise ValueError_(
                    "Cannot set update_on_kvstore=False on dist kvstore when sparse gradients are "
                    "present."
                )
            # In one process, the trainer updates, because each context then updates its own rows
            # and no whole array is copied.
            on_store = self._distributed
        looks = self._amp_loss_scaler is not None or self._max_norm is not None
        if store is not None and given is None and looks:
            # Unless the store is asynchronous, the trainer updates the weights, because it decides
            # from the summed gradients whether to skip the step.
            on_store = on_store and "async" in store.type
        if self._distributed and store is not None and "async" in store.type:
            if given is False:
                raise ValueError_("Please set update_on_kvstore=True when training in async mode.")
            on_store = True
        if store is not None and given is not None:
            if given and not store.is_capable(KVStoreBase.OPTIMIZER):
                raise ValueError_(
                    f"Please set update_on_kvstore=False when training with {type(store)}"
                )
            on_store = bool(given)
        if isinstance(store, BucketStore):
            options = {
                "rescale_grad (1 / batch size)": self._optimizer.rescale_grad,
                "update_on_kvstore": given,
                "zero": self._zero,
                "clip_global_norm": self._max_norm,
                "compression_params": self._compression_params,
            }
            everyone = group_of("Trainer", None)
            check_agreement("Trainer", everyone, self._optimizer, self._params, options)
        group = self._data_group(store)
        self._division = Division(
            type(self).__name__, group, self._params, self._optimizer, self._zero
        )
        if self._division.differs and on_store:
            if given:
                raise ValueError_(
                    "Trainer: update_on_kvstore=True lets the store update whole parameters, but "
                    "some are sharded; use update_on_kvstore=False"
                )
            on_store = False
        checked_norm(self._max_norm, on_store)
        if store is not None and self._compression_params:
            store.set_gradient_compression(self._compression_params)  # type: ignore[attr-defined]
        if not self._updaters:
            updaters = 1 if on_store else count
            self._updaters = [opt.get_updater(self._optimizer) for _ in range(updaters)]
        if store is not None and on_store:
            store.set_optimizer(self._optimizer)
            if isinstance(getattr(store, "_updater", None), opt.Updater):
                store._set_updater(self._updaters[0])  # type: ignore[attr-defined]
        self._kvstore, self._update_on_kvstore = store, None if store is None else on_store
        self._kv_initialized = True

    def _data_group(self, store: Any) -> Group:
        """Return the ranks whose gradients are summed."""
        return store_group(store, self._zero, self._params)

    def _init_params(self) -> None:
        """Initialize the store with the parameters that have a value."""
        pending = []
        for param in self._params_to_init:
            if param._data is None:
                pending.append(param)
            elif self._kvstore is not None:
                arrays, index = param._arrays(), self._param2idx[param.name]
                if self._is_sharded(param):
                    self._division.replicas.send_first(param)  # type: ignore[union-attr]
                elif autograd.is_recording() and self._kvstore.type in ("local", "device"):
                    # All contexts hold the same value; arrays on the tape are not overwritten.
                    self._kvstore.init(index, arrays[0])
                else:
                    self._kvstore.broadcast(index, arrays[0], arrays)
        self._params_to_init = pending

    @property
    def _state_shards(self) -> StateShards | None:
        return None if self._division is None else self._division.states

    def _is_sharded(self, param: Parameter) -> bool:
        """Return whether other ranks of the job hold other shards of a parameter."""
        return self._division is not None and self._division.replicas.is_sharded(param)

    def _ready(self) -> None:
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    @property
    def zero(self) -> int:
        """Stage of ZeRO: 1 if optimizer states are divided among the ranks, else 0."""
        return self._zero

    @property
    def optimizer(self) -> opt.Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self) -> float:
        """The current learning rate, from the scheduler if there is one."""
        return self._optimizer.learning_rate

    @property
    def gradient_norm(self) -> NDArray | None:
        """The 2-norm of all gradients of the last step before they were clipped.

        An array of shape (1,) on the first context, which reading waits for; None without
        ``clip_global_norm`` and before the first step.
        """
        return self._norm

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate.

        Raises
        ------
        SchedulerSetError
            If the optimizer has a scheduler: a ValueError and, as in 1.x, a UserWarning.
        """
        self._optimizer.set_learning_rate(lr)

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Sum gradients over contexts, divide by ``batch_size`` and update the parameters.

        Parameters
        ----------
        batch_size : int
            Size of the batch on all contexts together.
        ignore_stale_grad : bool
            Skip parameters whose gradient backward has not computed since the last step, instead
            of raising.

        Raises
        ------
        StaleGradientWarning
            If backward has not computed the gradient of a parameter since the last step.
        """
        self._check_and_rescale_grad(self._scale / checked_batch_size(batch_size))
        self._ready()
        fresh = self._fresh(ignore_stale_grad)
        if self._update_on_kvstore and self._overflows():
            self._arrays.leave_gradients(fresh)
            return
        self._reduce_fresh(fresh)
        self._update(fresh)

    def _check_and_rescale_grad(self, scale: float) -> None:
        """Set the factor of gradients; raise if a plug-in's optimizer cannot change it any more."""
        if self._update_on_kvstore and self._distributed and self._optimizer.rescale_grad != scale:
            if not self._kvstore._spans_processes:
                raise BatchSizeWarning(
                    "Possible change in the `batch_size` from previous `step` detected. Optimizer "
                    "gradient normalizing factor will not change w.r.t new batch_size when "
                    f"update_on_kvstore=True and when {type(self._kvstore).__name__} is used."
                )
        self._optimizer.rescale_grad = scale

    def allreduce_grads(self) -> None:
        """Sum the gradients over contexts; call `update` afterwards.

        Raises
        ------
        TrainerModeError
            If parameters are updated on the store.
        """
        self._ready()
        self._refuse_on_store("allreduce_grads()")
        self._allreduce_grads()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update the parameters with gradients summed before by `allreduce_grads`.

        Parameters
        ----------
        batch_size : int
        ignore_stale_grad : bool
            As in `step`.

        Raises
        ------
        TrainerModeError
            If parameters are updated on the store.
        """
        self._ready()
        self._refuse_on_store("update()")
        self._check_and_rescale_grad(self._scale / checked_batch_size(batch_size))
        self._update(self._fresh(ignore_stale_grad))

    def _refuse_on_store(self, method: str) -> None:
        if self._update_on_kvstore:
            raise TrainerModeError(
                f"{method} when parameters are updated on kvstore is not supported. Try setting "
                "`update_on_kvstore` to False when creating trainer."
            )

    def _allreduce_grads(self) -> None:
        """Sum all gradients; `step` calls this, and derived trainers override it, as in 1.x."""
        self._allreduce([entry for entry in enumerate(self._params) if has_grad(entry[1])])

    def _reduce_fresh(self, fresh: list[tuple[int, Parameter]]) -> None:
        if type(self)._allreduce_grads is Trainer._allreduce_grads:
            self._allreduce(fresh)
        else:
            self._allreduce_grads()

    def _allreduce(self, params: list[tuple[int, Parameter]]) -> None:
        """Sum gradients in the store; with update_on_kvstore the results are new values."""
        if self._kvstore is None:
            self._warn_of_copies()
            return
        with autograd.pause():
            whole = [(i, param) for i, param in params if not self._is_sharded(param)]
            entries = [(i, i, param._arrays(), param.list_grad()) for i, param in whole]
            names = [f"{i} {param.name}" for i, param in whole]
            pushpull_all(self._kvstore, entries, bool(self._update_on_kvstore), names)
            if self._division is not None and len(whole) < len(params):
                self._division.replicas.sum_gradients(
                    [param for _, param in params if self._is_sharded(param)]
                )

    def _warn_of_copies(self) -> None:
        """Warn once if there are several contexts but no store that sums gradients."""
        if self._warned_of_copies or self._contexts is None or len(self._contexts) < 2:
            return
        self._warned_of_copies = True
        warnings.warn(
            f"Trainer: kvstore=None sums no gradients, so the parameters on {self._contexts} "
            "become different; use kvstore='device', or sum the gradients yourself and call "
            "update() instead of step()",
            stacklevel=5,
        )

    def _overflows(self) -> bool:
        """Return whether the gradients overflowed; the loss scaler adjusts its scale."""
        scaler = self._amp_loss_scaler
        return scaler is not None and scaler.has_overflow(self._params)

    def _update(self, params: list[tuple[int, Parameter]]) -> None:
        if not self._update_on_kvstore:
            with autograd.pause():
                if self._skips_on_device():
                    check = self._amp_loss_scaler._begin_check(
                        self._arrays.grads(), shard_groups(self._params)
                    )
                    attempt = Attempt(self._optimizer, self._updaters)
                    self._update_arrays(params, check.factor)
                    check.add_follower(attempt.finish)
                    attempt.wait_with(self._amp_loss_scaler._settle)
                elif not self._overflows():
                    self._update_arrays(params)
        self._arrays.leave_gradients(params)

    def _skips_on_device(self) -> bool:
        """Return whether the device skips a step that overflowed without involving the host."""
        begin_check = getattr(self._amp_loss_scaler, "_begin_check", None)
        return begin_check is not None and self._arrays.dense and self._optimizer._takes_scale()

    def _update_arrays(
        self,
        params: list[tuple[int, Parameter]],
        factor: Callable[[Context], NDArray] | None = None,
    ) -> None:
        lists = self._arrays.chosen(params, only_fresh=self._kvstore is None)
        shards = self._state_shards
        self._check_states()
        if shards is not None:
            shards.assign(self._arrays.entries)
        self._norm = update_arrays(
            self._updaters, lists, self._params, self._max_norm, factor, shards
        )
        if shards is not None:
            shards.send_weights(self._arrays.entries)

    def _settle(self) -> None:
        """Wait for the overflow check of the last step, which decides whether it was skipped."""
        for waiting in (self._amp_loss_scaler, self._optimizer):
            if isinstance(waiting, Settling):
                waiting._settle()

    def _fresh(self, ignore_stale_grad: bool) -> list[tuple[int, Parameter]]:
        """Return the parameters with a gradient that backward has computed."""
        self._arrays.update(self._params)
        entries = self._arrays.entries
        if not self._arrays.any_stale():
            return entries
        return [entry for entry in entries if is_fresh(entry[1], ignore_stale_grad)]

    # -- files and checkpoints -------------------------------------------------------------------

    def save_states(self, fname: str | os.PathLike[str]) -> None:
        """Save the optimizer's options, counts and states.

        With ``zero=1`` or sharded parameters all ranks must call this. Each rank writes a file with
        the whole states of all parameters, as one process would.

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

        A file of `save_states` is matched by parameter names, or by their order if the names
        differ. A pickle of 1.x has no names, so it must have the order of this trainer.

        Raises
        ------
        MissingFileError
            If there is no such file.
        FileFormatError
            If the file is truncated, damaged, of another format, or has other parameters.
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
                "the states are on the servers"
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
        """Restore the result of `state_dict`, from a trainer whose parameter names may differ.

        The optimizer gets the saved options. A warning names each option that this program gave to
        the trainer with another value than the program that saved it.

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
        check_state(state, "the state of a trainer", self._optimizer, self._amp_loss_scaler)
        warn_of_options(self._given, state)
        trees = [copied(tree) for tree in state["contexts"]]
        self._restore(trees, state.get("parameters"), "the state of a trainer")
        if self._amp_loss_scaler is not None and state["loss_scaler"] is not None:
            vars(self._amp_loss_scaler).update(state["loss_scaler"])

    def _restore(self, trees: list[dict[str, Any]], saved: Any, source: str) -> None:
        """Set options and states of each context; the trainer then owns their arrays."""
        trees = arranged(trees, saved, self._params, self._optimizer, f"load_states: {source}")
        for i, updater in enumerate(self._updaters):
            own = trees[i] if i < len(trees) else copied(trees[0])
            states, optimizer = states_from_tree(own, self._optimizer, source)
            updater.states = self._own_states(states)
            if optimizer is not None:
                self._optimizer = optimizer
        self._share_optimizer()

    def _tree(self, context: int) -> dict[str, Any]:
        """Return options and states of one context for all parameters, with whole arrays."""
        optimizer = None if context else self._optimizer
        tree = states_tree(self._updaters[context].states, optimizer)
        tree["states"] = {
            i: whole_state(self._params[i], state, self._optimizer._row_states)
            if i < len(self._params)
            else state
            for i, state in tree["states"].items()
        }
        shards = self._state_shards
        return tree if shards is None else shards.merged(tree)

    def _forget_groups(self) -> None:
        """Forget which rank updates which parameter, because the job has been formed again."""
        if self._division is not None:
            self._lost_states |= self._division.states is not None
            self._kv_initialized, self._division = False, None

    def _check_states(self) -> None:
        """Raise if the job was formed again and the next update needs states that are lost."""
        if self._lost_states:
            raise MXNetError(
                "Trainer: optimizer states that were divided among the ranks are lost, because "
                "the job was formed again; call load_states or load_state_dict before the next step"
            )

    def _own_states(self, states: dict[Any, Any]) -> dict[Any, Any]:
        """Return the part of all states that this rank stores."""
        self._lost_states = False
        shards = self._state_shards
        if shards is not None:
            entries = [
                (i, p) for i, p in enumerate(self._params) if has_grad(p) and p._data is not None
            ]
            shards.assign(entries)
            states = shards.own_states(states, entries)
        for i, param in enumerate(self._params):
            if i in states and param.shard is not None:
                states[i] = own_state(param, states[i], self._optimizer._row_states)
        return states

    def _share_optimizer(self) -> None:
        self._optimizer.param_dict = dict(enumerate(self._params))
        tell_shards(self._params, self._optimizer)
        for updater in self._updaters:
            updater.optimizer = self._optimizer
