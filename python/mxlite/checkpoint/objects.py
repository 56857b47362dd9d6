"""The state of networks, trainers, modules, iterators and metrics as trees of plain values."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import _core, autograd
from .._files.likeness import check_class, check_like, is_number
from .._typed_init import check_argument
from ..base import FileFormatError, NotSupportedError, ShapeError
from ..gluon.block import Block
from ..gluon.parameter.files import check_arrays, load_into
from ..gluon.trainer import Trainer
from ..lr_scheduler import LRScheduler
from ..metric import CompositeEvalMetric, EvalMetric
from ..module import Module
from ..ndarray import NDArray
from ..optimizer.states import prepare_states, states_tree
from .trainers import matched_state, trainer_state

__all__ = ["Apply", "finish_block", "prepare", "state_of", "state_of_kind"]

Apply = Callable[[], None]
_CLASS = "class"  # key of a class's name among attributes; absent in files of older versions


def state_of(value: Any, blocks: Mapping[str, Block]) -> tuple[str, Any]:
    """Return the kind of an object and its state; the state of a plain value is the value."""
    if isinstance(value, Block):
        return "block", _block_state(value)
    if isinstance(value, Module):
        return "module", _module_state(value)
    if isinstance(value, EvalMetric):
        return "metric", _metric_state(value)
    if isinstance(value, LRScheduler):
        return "scheduler", {_CLASS: type(value).__name__, **_plain_attributes(value)}
    if isinstance(value, Trainer):
        return "state_dict", trainer_state(value, blocks)
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return "state_dict", value.state_dict()
    return "value", value


def prepare(value: Any, kind: str, state: Any, source: str, blocks: Mapping[str, Block]) -> Apply:
    """Check that a state fits an object; return the function that restores it."""
    expected = state_of_kind(value)
    if kind != expected:
        raise FileFormatError(
            f"{source}: the object must be a {kind} as when it was saved, got a "
            f"{type(value).__name__} ({expected})"
        )
    if kind == "block":
        return _prepare_block(value, state, source)
    if kind == "module":
        return _prepare_module(value, state, source)
    if kind == "metric":
        return _prepare_metric(value, state, source)
    if kind == "scheduler":
        return _prepare_attributes(value, kind, state, _plain_attributes(value), source)
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
        if param._shard is not None:  # the whole array, so that jobs of any size can load it
            first, others = param.full_data(), []
        params[name] = first
        if any((other.asnumpy() != first.asnumpy()).any() for other in others):
            copies[name] = others  # running statistics differ between contexts
        if param.grad_req == "add":  # gradients that accumulate over several steps
            gradients[name] = [param._whole(grad) for grad in param.list_grad()]
    return {
        "params": params, "copies": copies, "gradients": gradients, "uninitialized": absent
    }  # fmt: skip


def _prepare_block(block: Block, state: dict[str, Any], source: str) -> Apply:
    params = block._collect_params_with_prefix()
    empty: dict[str, Any] = {"params": {}, "copies": {}, "gradients": {}, "uninitialized": []}
    check_like(state, empty, f"{source}: the state")
    arrays: dict[str, NDArray] = state["params"]
    unknown = set(state["uninitialized"])
    for name, array in arrays.items():
        if not isinstance(array, NDArray):
            raise FileFormatError(
                f"{source}: parameter {str(name)[:100]!r} must be an NDArray, got a "
                f"{type(array).__name__}"
            )
    for name, param in params.items():
        if name in arrays and param.shape is not None:
            saved = tuple(arrays[name].shape)
            own = tuple(param.shape)
            if len(own) != len(saved) or any(n > 0 and n != m for n, m in zip(own, saved)):
                raise ShapeError(
                    f"{source}: parameter {name!r} must have the saved shape {saved}, got {own}"
                )
    wanted = {name: [param] for name, param in params.items() if name not in unknown}

    def apply() -> None:
        load_into(
            wanted, arrays, source, None, allow_missing=False, ignore_extra=False,
            cast_dtype=False, dtype_source="current",
        )  # fmt: skip
        for name, gradients in state["gradients"].items():
            if params[name].grad_req != "null":
                for own, gradient in zip(params[name].list_grad(), gradients):
                    own[:] = params[name]._own_part(gradient)

    missing = [name for name in wanted if name not in arrays]
    extra = [
        name for name in (*arrays, *unknown) if name not in (*wanted, *unknown & params.keys())
    ]
    if missing or extra:
        raise FileFormatError(
            f"{source}: the network differs: not in the file: {missing[:5]}, not in the network: "
            f"{extra[:5]}"
        )
    check_arrays(wanted, arrays, source)
    for kind in ("copies", "gradients"):
        for name, others in state[kind].items():
            check_like(others, [], f"{source}: {kind} of {name!r}")
            if name not in arrays or any(
                _core.array_kind(other) != "dense" or other.shape != arrays[name].shape
                for other in others
            ):
                raise FileFormatError(
                    f"{source}: {kind} of {str(name)[:100]!r} must be arrays with the shape of the "
                    "saved parameter"
                )
    return apply


def finish_block(block: Block, state: dict[str, Any]) -> None:
    """Restore values that differ between contexts, after a trainer's store has made them equal."""
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
    check_like(state, {"args": {}, "aux": {}, "optimizer": None}, f"{source}: the state")
    if not module.binded:
        raise NotSupportedError(f"{source}: bind the module before its state is loaded")
    if state["optimizer"] is not None and not module.optimizer_initialized:
        raise NotSupportedError(
            f"{source}: the state has an optimizer; call init_optimizer before it is loaded"
        )
    for key, own, kind in (("args", module._param_names, 0), ("aux", module._aux_names, 1)):
        saved, arrays = state[key], module.get_params()[kind]
        if set(own) != set(saved):
            raise FileFormatError(
                f"{source}: the module differs: not in the file: "
                f"{sorted(set(own) - set(saved))[:5]}, not in the module: "
                f"{sorted(set(saved) - set(own), key=str)[:5]}"
            )
        for name in own:
            if not isinstance(saved[name], NDArray) or saved[name].shape != arrays[name].shape:
                raise ShapeError(
                    f"{source}: parameter {name!r} must have the saved shape "
                    f"{getattr(saved[name], 'shape', None)}, got {arrays[name].shape}"
                )
    restore_optimizer = None
    if state["optimizer"] is not None:
        updater = _module_updater(module)
        own_optimizer = updater.optimizer
        check_class(source, "optimizer", state["optimizer"]["optimizer"]["name"], own_optimizer)
        restore_optimizer = prepare_states(state["optimizer"], own_optimizer, source)

    def apply() -> None:
        module.init_params(
            initializer=None, arg_params=state["args"], aux_params=state["aux"], force_init=True
        )
        if module.optimizer_initialized and module._kvstore is not None:
            _refresh_store(module)
        if restore_optimizer is not None:
            updater = _module_updater(module)
            updater.states, optimizer = restore_optimizer()
            if optimizer is not None:
                updater.optimizer = optimizer
                module._optimizer = optimizer

    return apply


def _refresh_store(module: Module) -> None:
    """Copy the restored values to the store, which has separate copies."""
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
        return {
            _CLASS: type(metric).__name__, "metrics": [_metric_state(m) for m in metric.metrics]
        }  # fmt: skip
    kept = (int, float, str, bytes, bool, list, tuple, dict, NDArray, type(None))
    attributes = {
        key: entry
        for key, entry in _plain_attributes(metric).items()
        if key != "_kwargs" and (isinstance(entry, kept) or hasattr(entry, "dtype"))
    }
    attributes.update({k: dict(vars(v)) for k, v in vars(metric).items() if _is_part(v)})
    return {_CLASS: type(metric).__name__, **attributes}


def _is_part(value: Any) -> bool:
    """Return whether a value is a helper object of mxlite's metrics, such as the counts of F1."""
    return type(value).__module__.startswith("mxlite.metric") and not isinstance(value, EvalMetric)


def _prepare_metric(metric: EvalMetric, state: Any, source: str) -> Apply:
    own = _metric_state(metric)
    if not isinstance(metric, CompositeEvalMetric):
        del own[_CLASS]
        return _prepare_attributes(metric, "metric", state, own, source)
    check_class(source, "metric", state.get(_CLASS, own[_CLASS]), metric)
    parts = state["metrics"]
    if not isinstance(parts, list) or len(parts) != len(metric.metrics):
        raise FileFormatError(
            f"{source}: the number of metrics must be {len(parts)}, as in the program that saved "
            f"the file, got {len(metric.metrics)}"
        )
    steps = [
        _prepare_metric(part, saved, f"{source}, metric {i}")
        for i, (part, saved) in enumerate(zip(metric.metrics, parts))
    ]

    def apply() -> None:
        for step in steps:
            step()

    return apply


def _prepare_attributes(
    value: Any, what: str, state: dict[str, Any], own: dict[str, Any], source: str
) -> Apply:
    """Check the attributes of a metric or scheduler."""
    attributes = dict(state)
    check_class(source, what, attributes.pop(_CLASS, type(value).__name__), value)
    options = inspect.signature(type(value).__init__).parameters
    changed = []
    parts = {key: entry for key, entry in vars(value).items() if _is_part(entry)}
    for key in {**own, **attributes} if type(value).__module__.startswith("mxlite.") else ():
        # Checks only classes of mxlite. Files of older versions lack helper objects (`_is_part`).
        if key not in own or (key not in attributes and key not in parts):
            which = "no" if key in own else "an unknown"
            raise FileFormatError(f"{source}: its state has {which} entry {str(key)[:100]!r}")
    for key, entry in own.items():
        if key not in attributes:
            continue
        saved = attributes[key]
        one_value = isinstance(saved, (NDArray, np.ndarray)) and saved.size == 1
        if key in options:
            try:
                check_argument(type(value), key, saved)
            except TypeError as error:
                raise FileFormatError(f"{source}: {error}") from None
        elif not (is_number(entry) and one_value):
            open_ended = isinstance(entry, (dict, list, tuple)) and key not in parts
            like = type(entry)() if open_ended else entry
            check_like(saved, like, f"{source}: {key!r}", whole=False)
        if key in options and isinstance(entry, (bool, int, float, str)) and entry != saved:
            changed.append(f"{key} {entry!r} (saved: {saved!r})")
    for key in attributes:
        if not isinstance(key, str) or callable(getattr(type(value), key, None)):
            raise FileFormatError(f"{source}: {str(key)[:100]!r} is not an attribute of a {what}")

    def apply() -> None:
        if changed and what == "metric":  # a scheduler changes its attributes during training
            warnings.warn(
                f"{source}: this program made the {what} with {', '.join(changed)}. The saved "
                "options are restored",
                stacklevel=4,
            )
        for key, saved in attributes.items():
            if key in parts:
                vars(parts[key]).update(saved)
            else:
                vars(value)[key] = saved

    return apply
