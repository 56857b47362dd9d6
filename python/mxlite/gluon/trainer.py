"""Trainer: applies an optimizer to the parameters of a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import autograd
from .. import ndarray as nd
from .. import optimizer as opt
from ..base import (
    FileAccessError,
    MissingFileError,
    MXNetError,
    NotSupportedError,
    TypeError_,
    ValueError_,
    suggestion,
)
from ..context import Context
from ..ndarray.serialization import replacing_file
from ..optimizer.states import load_states
from .parameter import Parameter, ParameterDict

__all__ = ["StaleGradientWarning", "Trainer", "TrainerModeError"]

_STORES = ("local", "local_update_cpu", "local_allreduce_cpu", "device", "local_allreduce_device")


class StaleGradientWarning(MXNetError, UserWarning):
    """A gradient was not computed since the last step (1.x raises a ``UserWarning``)."""


class TrainerModeError(MXNetError, AssertionError):
    """A method that does not fit ``update_on_kvstore`` (1.x: ``AssertionError``)."""


class Trainer:
    """Applies an optimizer to a set of parameters, on one or several contexts of this process.

    Parameters
    ----------
    params : ParameterDict, dict or list of Parameter
        A dictionary is sorted by name.
    optimizer : str or Optimizer
    optimizer_params : dict, optional
        Arguments of the optimizer; only with a name.
    kvstore : str or None
        ``'device'`` or ``'local'``: the gradients of all contexts are summed in this process.
    compression_params : dict, optional
        Only None is supported.
    update_on_kvstore : bool, optional
        True updates one copy and sends it to all contexts; else each context updates its own.

    Notes
    -----
    Matches ``mxnet.gluon.Trainer`` for one process.
    """

    def __init__(
        self,
        params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
        optimizer: str | opt.Optimizer,
        optimizer_params: Mapping[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: Mapping[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        if isinstance(params, (Mapping, ParameterDict)):
            named = dict(params.items())
            params = [named[key] for key in sorted(named)]
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
            param._trainer = self
        _check_store(kvstore, compression_params)
        self._update_on_kvstore = bool(update_on_kvstore) and kvstore is not None
        self._compression_params = compression_params
        self._contexts: list[Context] | None = None
        self._init_optimizer(optimizer, dict(optimizer_params or {}))
        self._scale = float(self._optimizer.rescale_grad)
        self._updaters: list[opt.Updater] = []

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

    def _ready(self) -> None:
        """Make the updaters on first use, when the parameters are initialized."""
        if self._updaters:
            return
        self._contexts = self._check_contexts()
        count = 1 if self._update_on_kvstore else len(self._contexts)
        self._updaters = [opt.get_updater(self._optimizer) for _ in range(max(count, 1))]

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
        self._ready()
        self._optimizer.rescale_grad = self._scale / _checked_batch_size(batch_size)
        self._allreduce()
        self._update(ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Sum the gradients over contexts; `update` is to follow.

        Raises
        ------
        TrainerModeError
            If parameters are updated on the store.
        """
        self._ready()
        self._refuse_on_store("allreduce_grads()")
        self._allreduce()

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
        self._optimizer.rescale_grad = self._scale / _checked_batch_size(batch_size)
        self._update(ignore_stale_grad)

    def _refuse_on_store(self, method: str) -> None:
        if self._update_on_kvstore:
            raise TrainerModeError(
                f"{method} when parameters are updated on kvstore is not supported. Try setting "
                "`update_on_kvstore` to False when creating trainer."
            )

    def _allreduce(self) -> None:
        if self._contexts is None or len(self._contexts) < 2:
            return
        with autograd.pause():
            for param in self._params:
                if param.grad_req == "null":
                    continue
                grads = param.list_grad()
                total = nd.add_n(*(grad.as_in_context(grads[0].ctx) for grad in grads))
                for grad in grads:
                    total.copyto(grad)

    def _update(self, ignore_stale_grad: bool) -> None:
        fresh = [
            (index, param)
            for index, param in enumerate(self._params)
            if param.grad_req != "null" and self._is_fresh(param, ignore_stale_grad)
        ]
        with autograd.pause():
            for index, param in fresh:
                arrays, grads = param._arrays(), param.list_grad()
                for updater, array, grad in zip(self._updaters, arrays, grads):
                    updater(index, grad, array)
                for array in arrays[len(self._updaters) :]:
                    arrays[0].copyto(array)
                for array in arrays:
                    array._set_fresh_grad(False)

    def _is_fresh(self, param: Parameter, ignore_stale_grad: bool) -> bool:
        """Say whether backward computed the gradient; complain if it did not."""
        stale = [array.ctx for array in param._arrays() if not array._fresh_grad]
        if not stale:
            return True
        if ignore_stale_grad:
            return False
        raise StaleGradientWarning(
            f"Gradient of Parameter `{param.name}` on context {stale[0]} has not been updated by "
            "backward since last `step`. This could mean a bug in your model that made it only use "
            "a subset of the Parameters (Blocks) for this iteration. If you are intentionally only "
            "using a subset, call step with ignore_stale_grad=True to suppress this warning and "
            "skip updating of Parameters with stale gradient"
        )

    def save_states(self, fname: str | os.PathLike[str]) -> None:
        """Save the optimizer's options, counts and states.

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
        content = self._updaters[0].get_states(dump_optimizer=True)
        with replacing_file(os.fspath(fname)) as stream:
            stream.write(content)

    def load_states(self, fname: str | os.PathLike[str]) -> None:
        """Load states written by `save_states` or pickled by MXNet 1.x.

        Parameters
        ----------
        fname : str or path

        Raises
        ------
        MissingFileError
            If there is no such file.
        FileFormatError
            If it is truncated, damaged or something else.
        """
        path = os.fspath(fname)
        try:
            with open(path, "rb") as stream:
                content = stream.read()
        except FileNotFoundError as error:
            raise MissingFileError(f"load_states: file {path!r} does not exist") from error
        except OSError as error:
            raise FileAccessError(
                f"load_states: cannot read file {path!r}: {error.strerror or error}"
            ) from error
        self._ready()
        self._take_states(content, f"file {path!r}")

    def _take_states(self, content: bytes, source: str) -> None:
        for updater in self._updaters:
            states, optimizer = load_states(content, self._optimizer, source)
            updater.states = states
            if optimizer is not None:
                self._optimizer = optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))
        for updater in self._updaters:
            updater.optimizer = self._optimizer


def _checked_batch_size(batch_size: float) -> float:
    if isinstance(batch_size, bool) or not hasattr(batch_size, "__truediv__"):
        raise TypeError_(f"Trainer: batch_size is {batch_size!r}, expected a number above 0")
    if not batch_size > 0:
        raise ValueError_(f"Trainer: batch_size is {batch_size!r}, expected a number above 0")
    return batch_size


def _check_store(kvstore: Any, compression_params: Any) -> None:
    if compression_params:
        raise NotSupportedError(
            f"Trainer: compression_params {compression_params} were given, mxlite does not "
            "compress gradients yet"
        )
    if kvstore is None or kvstore in _STORES:
        return
    if isinstance(kvstore, str):
        if "dist" in kvstore or kvstore in ("nccl", "horovod", "p3", "byteps"):
            raise NotSupportedError(
                f"Trainer: kvstore {kvstore!r} was given, mxlite has no distributed training yet; "
                "use 'device' or None"
            )
        raise ValueError_(
            f"Trainer: kvstore is {kvstore!r}, expected 'device', 'local' or None"
            f"{suggestion(kvstore, _STORES)}"
        )
    raise NotSupportedError(
        f"Trainer: a kvstore object of type {type(kvstore).__name__} was given, mxlite takes "
        "'device', 'local' or None"
    )
