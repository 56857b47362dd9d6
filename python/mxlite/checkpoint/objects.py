"""The state of networks, trainers, modules, iterators and metrics as trees of plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import autograd
from ..base import FileFormatError, NotSupportedError, ShapeError
from ..gluon.base_block import Block
from ..gluon.parameter_dict import load_into
from ..gluon.trainer import Trainer
from ..lr_scheduler import LRScheduler
from ..metric import CompositeEvalMetric, EvalMetric
from ..module import Module
from ..ndarray import NDArray
from ..optimizer.states import states_from_tree, states_tree
from .trainers import matched_state, trainer_state

__all__ = ["Apply", "finish_block", "prepare", "state_of", "state_of_kind"]

Apply = Callable[[], None]


def state_of(value: Any, blocks: Mapping[str, Block]) -> tuple[str, Any]:
    """Return the kind of an object and its state; plain values are their own state.

    Parameters
    ----------
    value : object
        A Block, Trainer, Module, iterator, DataLoader, metric, scheduler, anything else with
        ``state_dict`` and ``load_state_dict``, or plain values.
    blocks : mapping of str to Block
        The blocks of the same checkpoint, whose structure names a trainer's parameters.

    Returns
    -------
    kind : str
        ``"value"`` for plain values.
    state : object
    """
    if isinstance(value, Block):
        return "block", _block_state(value)
    if isinstance(value, Module):
        return "module", _module_state(value)
    if isinstance(value, EvalMetric):
        return "metric", _metric_state(value)
    if isinstance(value, LRScheduler):
        return "scheduler", _plain_attributes(value)
    if isinstance(value, Trainer):
        return "state_dict", trainer_state(value, blocks)
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return "state_dict", value.state_dict()
    return "value", value


def prepare(value: Any, kind: str, state: Any, source: str, blocks: Mapping[str, Block]) -> Apply:
    """Check that a state fits an object; return the function that restores it.

    Parameters
    ----------
    value : object
    kind : str
        Description that `state_of` returned when it was saved.
    state : object
    source : str
        Named in messages.
    blocks : mapping of str to Block
        The blocks that are restored from the same checkpoint.

    Returns
    -------
    callable
        Takes no arguments. Nothing changes before it is called.

    Raises
    ------
    FileFormatError
        If the state is that of another kind of object, or of one with other parameters.
    ShapeError
        If a parameter has another shape.
    """
    expected = state_of_kind(value)
    if kind != expected:
        raise FileFormatError(
            f"{source}: it was saved as a {kind}, a {type(value).__name__} ({expected}) is given"
        )
    if kind == "block":
        return _prepare_block(value, state, source)
    if kind == "module":
        return _prepare_module(value, state, source)
    if kind == "metric":
        return lambda: _load_metric(value, state)
    if kind == "scheduler":
        return lambda: vars(value).update(state)
    if isinstance(value, Trainer):
        matched = matched_state(value, state, blocks, source)
        return lambda: value.load_state_dict(matched)
    return lambda: value.load_state_dict(state)


def state_of_kind(value: Any) -> str:
    """Return the kind of an object, without its state."""
    for klass, kind in (
        (Block, "block"),
        (Module, "module"),
        (EvalMetric, "metric"),
        (LRScheduler, "scheduler"),
    ):
        if isinstance(value, klass):
            return kind
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return "state_dict"
    return "value"


# -- blocks --------------------------------------------------------------------------------------


def _block_state(block: Block) -> dict[str, Any]:
    params: dict[str, NDArray] = {}
    copies: dict[str, list[NDArray]] = {}
    gradients: dict[str, list[NDArray]] = {}
    absent = []
    for name, param in block._collect_params_with_prefix().items():
        if param._data is None:
            absent.append(name)
            continue
        first, *others = param._arrays()
        if param._shard is not None:  # whole, so that other numbers of ranks read it
            first, others = param.full_data(), []
        params[name] = first
        if any((other.asnumpy() != first.asnumpy()).any() for other in others):
            copies[name] = others  # running statistics are every context's own
        if param.grad_req == "add":  # gradients that steps collect
            gradients[name] = [param._whole(grad) for grad in param.list_grad()]
    return {
        "params": params, "copies": copies, "gradients": gradients, "uninitialized": absent
    }  # fmt: skip


def _prepare_block(block: Block, state: dict[str, Any], source: str) -> Apply:
    params = block._collect_params_with_prefix()
    arrays: dict[str, NDArray] = state["params"]
    unknown = set(state["uninitialized"])
    for name, param in params.items():
        if name in arrays and param.shape is not None:
            saved = tuple(arrays[name].shape)
            own = tuple(param.shape)
            if len(own) != len(saved) or any(n > 0 and n != m for n, m in zip(own, saved)):
                raise ShapeError(
                    f"{source}: parameter {name!r} was saved with shape {saved}, here it has {own}"
                )
    wanted = {name: [param] for name, param in params.items() if name not in unknown}

    def apply() -> None:
        load_into(
            wanted, arrays, source, None, allow_missing=False, ignore_extra=False,
            cast_dtype=False, dtype_source="current",
        )  # fmt: skip
        for name, gradients in state["gradients"].items():
            for own, gradient in zip(params[name].list_grad(), gradients):
                own[:] = params[name]._as_block(gradient)

    missing = [name for name in wanted if name not in arrays]
    extra = [name for name in arrays if name not in wanted]
    if missing or extra:
        raise FileFormatError(
            f"{source}: the network differs: not in the file: {missing[:5]}, not in the network: "
            f"{extra[:5]}"
        )
    return apply


def finish_block(block: Block, state: dict[str, Any]) -> None:
    """Give every context its own values where they differ: a trainer's store makes them equal.

    Parameters
    ----------
    block : Block
    state : dict
        Description that `state_of` returned.
    """
    params = block._collect_params_with_prefix()
    with autograd.pause():
        for name, others in state["copies"].items():
            for own, other in zip(params[name].list_data()[1:], others):
                own[:] = other


# -- modules -------------------------------------------------------------------------------------


def _module_updater(module: Module) -> Any:
    updater = module._kvstore._updater if module._update_on_kvstore else module._updater
    if not hasattr(updater, "states"):
        raise NotSupportedError(
            f"checkpoint: the optimizer of {module._kvstore.type!r} is not in this process"
        )
    return updater


def _module_state(module: Module) -> dict[str, Any]:
    args, aux = module.get_params()
    optimizer = None
    if module.optimizer_initialized:
        updater = _module_updater(module)
        optimizer = states_tree(updater.states, updater.optimizer)
    return {"args": dict(args), "aux": dict(aux), "optimizer": optimizer}


def _prepare_module(module: Module, state: dict[str, Any], source: str) -> Apply:
    if not module.binded:
        raise NotSupportedError(f"{source}: bind the module before its state is loaded")
    if state["optimizer"] is not None and not module.optimizer_initialized:
        raise NotSupportedError(
            f"{source}: the state has an optimizer; call init_optimizer before it is loaded"
        )
    names = set(module._param_names) | set(module._aux_names)
    saved = set(state["args"]) | set(state["aux"])
    if names != saved:
        raise FileFormatError(
            f"{source}: the module differs: not in the file: {sorted(names - saved)[:5]}, not in "
            f"the module: {sorted(saved - names)[:5]}"
        )

    def apply() -> None:
        module.init_params(
            initializer=None, arg_params=state["args"], aux_params=state["aux"], force_init=True
        )
        if module.optimizer_initialized and module._kvstore is not None:
            _refresh_store(module)
        if state["optimizer"] is not None:
            updater = _module_updater(module)
            updater.states, optimizer = states_from_tree(
                state["optimizer"], updater.optimizer, source
            )
            if optimizer is not None:
                updater.optimizer = optimizer
                module._optimizer = optimizer

    return apply


def _refresh_store(module: Module) -> None:
    """Give the store, which keeps values of its own, the new ones."""
    stored = getattr(module._kvstore, "_arrays", None)
    if stored is None:
        raise NotSupportedError(
            f"checkpoint: values in the store {module._kvstore.type!r} cannot be replaced; load "
            "the checkpoint before init_optimizer"
        )
    args, _ = module.get_params()
    for name, value in args.items():
        if name in stored:
            stored[name][:] = value


# -- metrics and schedulers ----------------------------------------------------------------------


def _plain_attributes(value: Any) -> dict[str, Any]:
    return {key: entry for key, entry in vars(value).items() if not callable(entry)}


def _metric_state(metric: EvalMetric) -> dict[str, Any]:
    if isinstance(metric, CompositeEvalMetric):
        return {"metrics": [_metric_state(part) for part in metric.metrics]}
    kept = (int, float, str, bool, list, tuple, dict, NDArray, type(None))
    return {
        key: entry
        for key, entry in _plain_attributes(metric).items()
        if key != "_kwargs" and (isinstance(entry, kept) or hasattr(entry, "dtype"))
    }


def _load_metric(metric: EvalMetric, state: dict[str, Any]) -> None:
    if isinstance(metric, CompositeEvalMetric):
        for part, saved in zip(metric.metrics, state["metrics"]):
            _load_metric(part, saved)
    else:
        vars(metric).update(state)
