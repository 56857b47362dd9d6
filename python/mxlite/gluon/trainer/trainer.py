"""Trainer: applies an optimizer to the parameters of a model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import autograd
from ... import optimizer as opt
from ..._typed_init import TypedInit
from ...base import MXNetError, TypeError_, ValueError_
from ...comm.groups import Group, group_of
from ...context import Context
from ...kvstore.base import KVStoreBase
from ...kvstore.choice import chosen_store
from ...kvstore.gradients import BucketStore, pushpull_all
from ...kvstore.names import checked_name
from ...ndarray import NDArray
from ...optimizer.settling import Settling
from ...optimizer.updater import Attempt
from ...parallel.agreement import check_agreement
from ...parallel.replicas import Replicas, check_same_loss, shard_groups, tell_shards
from ...parallel.zero import StateShards, checked_stage, store_group
from ..parameter import Parameter, ParameterDict
from .checks import (
    BatchSizeWarning,
    StaleGradientWarning,
    TrainerModeError,
    checked_batch_size,
    checked_options,
    given_options,
    is_fresh,
    sparse_parts,
)
from .state_matching import by_number
from .states import TrainerStates
from .updates import StepArrays, checked_norm, has_grad, update_arrays

__all__ = ["StaleGradientWarning", "Trainer", "TrainerModeError"]


class Trainer(TrainerStates, TypedInit):
    """Applies an optimizer to a set of parameters, on the contexts of one or several processes.

    Parameters
    ----------
    params : ParameterDict, dict or list of Parameter
        A dictionary is sorted by name. Its weights are updated in the order of the numbers in their
        names: Nadam's schedule then is the same for dense8, dense9 and for dense9, dense10.
    optimizer : str or Optimizer
    optimizer_params : dict, optional
        Arguments of the optimizer; only with a name.
    kvstore : str, KVStoreBase or None
        Sums the gradients of several contexts and processes, see `mx.kv.create`. One context needs
        none unless an object is given or the type spans processes. None sums nothing: several
        contexts train copies that differ, of which `step` warns.
    compression_params : dict, optional
        See ``KVStore.set_gradient_compression``.
    update_on_kvstore : bool, optional
        True updates one copy in the store and sends it to all contexts; False sums gradients and
        lets each context update its own. None chooses: True where the store can.
    clip_global_norm : float, optional
        Scale all gradients of a step together, after the division by the batch size, to this
        2-norm if theirs is larger. A step whose norm is NaN or infinite changes no parameter.
    zero : {0, 1}
        1: each rank of a distributed store keeps the optimizer's states of some parameters and
        updates them, and sends the weights to the other ranks (stage 1 of ZeRO). The results have
        the same bits as those of 0. Parameters are assigned whole.

    Notes
    -----
    Matches ``mxnet.gluon.Trainer``. Stores sum over processes: ``step`` takes the batch size of all
    workers together. Another batch size or learning rate than before reaches the optimizer of a
    distributed store of mxlite (1.x: an error). With ``ignore_stale_grad`` a parameter is left
    alone when no context has computed its gradient.
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
            raise TypeError_(f"Trainer: kvstore must be KVStore, str or None, {kvstore!r} given")
        if kvstore is None and update_on_kvstore:
            raise ValueError_("Trainer: update_on_kvstore=True needs a kvstore, None was given")
        self._max_norm = checked_norm(clip_global_norm, update_on_kvstore)
        self._compression_params = compression_params
        self._contexts: list[Context] | None = None
        options = checked_options(optimizer_params)
        scheduler = getattr(optimizer, "lr_scheduler", None)  # None if `optimizer` is a name
        self._given = given_options(options or {"lr_scheduler": scheduler})
        self._init_optimizer(optimizer, options)
        self._zero = checked_stage(zero, update_on_kvstore, self._optimizer)
        self._state_shards = None
        self._scale = float(self._optimizer.rescale_grad)
        # Set by amp.init_trainer: the scale of the loss, and _scale without it.
        self._amp_loss_scaler: Any = None
        self._amp_original_scale = self._scale
        self._updaters: list[opt.Updater] = []
        self._arrays = StepArrays(order)
        # gluon-nlp and other trainers derived from this one read these.
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
        """Forget the store; the next step makes one of the parameters' values."""
        self._kv_initialized = False
        self._kvstore: Any = None
        self._replicas = None
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    def _value_was_set(self, param: Parameter) -> None:
        """Take over a value that `Parameter.set_data` wrote."""
        if self._update_on_kvstore and not any(p is param for p in self._params_to_init):
            if self._distributed:
                raise MXNetError(
                    f"Cannot reset distributed KVStore: the value of Parameter {param.name!r} was "
                    "set in this process only, the store has the one that all workers train; set "
                    "values before the first step, or use update_on_kvstore=False"
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
            # Contexts of one process update the rows they have, nothing whole is copied.
            on_store = self._distributed
        looks = self._amp_loss_scaler is not None or self._max_norm is not None
        if store is not None and given is None and looks:
            # Sums are looked at before they become values: a step may be skipped.
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
            group = group_of("Trainer", None)
            check_agreement("Trainer", group, self._optimizer, self._params, options)
        if self._divides(store) and on_store:
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

    def _divides(self, store: Any) -> bool:
        """Find the ranks that share parameters; say whether some hold parts of what is trained."""
        group = self._data_group(store)
        self._replicas = Replicas(type(self).__name__, group, self._params)
        tell_shards(self._params, self._optimizer)
        check_same_loss(type(self).__name__, self._params, group)
        if self._zero and group.size > 1 and self._state_shards is None:
            for i in self._optimizer._shards if not self._optimizer._by_element else ():
                self._replicas.check_places("Trainer: zero=1", self._params[i])
            self._state_shards = StateShards(self._replicas)
        return self._state_shards is not None or self._replicas.differ

    def _init_params(self) -> None:
        """Give the store the parameters that have a value by now."""
        pending = []
        for param in self._params_to_init:
            if param._data is None:
                pending.append(param)
            elif self._kvstore is not None:
                arrays, index = param._arrays(), self._param2idx[param.name]
                if self._is_sharded(param):
                    self._replicas.send_first(param)  # type: ignore[union-attr]
                elif autograd.is_recording() and self._kvstore.type in ("local", "device"):
                    # All contexts hold the same value; arrays on the tape are not overwritten.
                    self._kvstore.init(index, arrays[0])
                else:
                    self._kvstore.broadcast(index, arrays[0], arrays)
        self._params_to_init = pending

    def _is_sharded(self, param: Parameter) -> bool:
        """Say whether other ranks of the job hold other shards of a parameter."""
        return self._replicas is not None and self._replicas.is_sharded(param)

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
        """The learning rate now: the scheduler's value if there is one."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate.

        Parameters
        ----------
        lr : float

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
            Leave parameters alone whose gradient backward has not computed since the last step;
            else they raise.

        Raises
        ------
        StaleGradientWarning
            For such parameters.
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
        """Set the factor of gradients; the optimizer of a plug-in may have its own by now."""
        if self._update_on_kvstore and self._distributed and self._optimizer.rescale_grad != scale:
            if not self._kvstore._spans_processes:
                raise BatchSizeWarning(
                    "Possible change in the `batch_size` from previous `step` detected. Optimizer "
                    "gradient normalizing factor will not change w.r.t new batch_size when "
                    f"update_on_kvstore=True and when {type(self._kvstore).__name__} is used."
                )
        self._optimizer.rescale_grad = scale

    def allreduce_grads(self) -> None:
        """Sum the gradients over contexts; `update` is to follow.

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
        """Sum all gradients; 1.x calls this in `step`, and trainers derived from it define it."""
        self._allreduce([entry for entry in enumerate(self._params) if has_grad(entry[1])])

    def _reduce_fresh(self, fresh: list[tuple[int, Parameter]]) -> None:
        if type(self)._allreduce_grads is Trainer._allreduce_grads:
            self._allreduce(fresh)
        else:
            self._allreduce_grads()

    def _allreduce(self, params: list[tuple[int, Parameter]]) -> None:
        """Sum gradients in the store; with update_on_kvstore the sums become new values."""
        if self._kvstore is None:
            self._warn_of_copies()
            return
        with autograd.pause():
            whole = [(i, param) for i, param in params if not self._is_sharded(param)]
            entries = [(i, i, param._arrays(), param.list_grad()) for i, param in whole]
            names = [f"{i} {param.name}" for i, param in whole]
            pushpull_all(self._kvstore, entries, bool(self._update_on_kvstore), names)
            if self._replicas is not None and len(whole) < len(params):
                self._replicas.sum_gradients(
                    [param for _, param in params if self._is_sharded(param)]
                )

    def _warn_of_copies(self) -> None:
        """Warn once if no gradients are summed although there are several contexts."""
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
        """Say whether the gradients overflowed; the loss scaler changes its scale by the answer."""
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
        """Say whether an overflow is left to the device; else it is read before the update."""
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
        update_arrays(self._updaters, lists, self._params, self._max_norm, factor, shards)
        if shards is not None:
            shards.send_weights(self._arrays.entries)

    def _settle(self) -> None:
        """Wait for the overflow check of the last step, which may have been skipped."""
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
