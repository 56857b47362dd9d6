"""Adds to an error the layer that raised it: ``in Net.features.3 (Conv2D 'net0_conv3'), ...``."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from ...base import MXNetError, ShapeError
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...symbol import Symbol
from ..call_types import BlockLike

__all__ = ["add_layer", "channels_hint", "conv_hint", "described_line"]

_LONGEST = 6  # maximum number of list entries that an error describes
_PACKAGE = str(Path(__file__).parents[2])


def _input_text(value: Any) -> str:
    if isinstance(value, NDArray):
        return f"{tuple(value.shape)} {dtype_name(value.dtype)}"
    if isinstance(value, Symbol):
        return f"symbol {value.name or 'group'}"
    if isinstance(value, (list, tuple)):
        parts = ", ".join(_input_text(part) for part in value[:_LONGEST])
        return f"[{parts}{', ...' if len(value) > _LONGEST else ''}]"
    return type(value).__name__


def _key_of(child: int, block: BlockLike) -> str:
    """Return the structural name of the child with that id, or ``?``."""
    for key, value in block._children.items():
        if id(value) == child:
            return key
    return "?"


def channels_hint(shape: tuple[int, ...], channels: int, axis: int, option: str) -> str:
    """Return a hint if the data does not have its channels along the layer's channel axis."""
    if channels <= 0 or not 1 <= axis < len(shape) or shape[axis] == channels:
        return ""
    text = f"the layer takes {channels} channels along axis {axis} ({option}), but the data has "
    text += f"{shape[axis]} there"
    last = len(shape) - 1
    other = last if axis == 1 else 1
    if shape[other] == channels:
        order = (0, last, *range(1, last)) if axis == 1 else (0, *range(2, last + 1), 1)
        text += (
            f" and {channels} along axis {other}: move them by data.transpose({order}), or make "
            f"the layer with another {option.partition('=')[0]}"
        )
    return text


def conv_hint(layer: Any, shape: tuple[int, ...]) -> str:
    """Return `channels_hint` for a convolution."""
    layout, weight = layer._kwargs["layout"], layer.weight.shape or layer._weight_shape()
    channels = weight[0]
    if not layer._transposed:
        channels = weight[-1 if layout.endswith("C") else 1] * layer._kwargs["num_group"]
    return channels_hint(shape, channels, layout.index("C"), f"layout={layout!r}")


def add_layer(error: MXNetError, block: BlockLike, args: tuple[Any, ...]) -> None:
    """Add to an error's text the block in whose call it was raised.

    The innermost block calls it first, then each block around it. The text names the innermost
    block and its path from the outermost one.
    """
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    trail: dict[str, Any] | None = getattr(error, "_layers", None)
    if trail is None:
        trail = {
            "text": error.args[0],
            "layer": f"{type(block).__name__} {block.name!r}",
            "inputs": ", ".join(_input_text(value) for value in args) + _hint(error, block, args),
            "path": [],
            "last": id(block),
        }
        error.__dict__["_layers"] = trail
    # An entry is not repeated if a hybridized block calls itself to trace.
    elif trail["last"] != id(block):
        trail["path"].insert(0, _key_of(trail["last"], block))
        trail["last"] = id(block)
    path = ".".join([type(block).__name__, *trail["path"]])
    where = f"{path} ({trail['layer']})" if trail["path"] else trail["layer"]
    error.args = (f"{trail['text']}\n    in {where}, called with {trail['inputs']}",)


def _hint(error: MXNetError, block: BlockLike, args: tuple[Any, ...]) -> str:
    """Return a line that compares the input's shape with the layer's options."""
    shape = tuple(getattr(args[0], "shape", ())) if args else ()
    if not isinstance(error, ShapeError) or len(shape) < 2:
        return ""
    found = getattr(block, "_shape_hint", None)
    text = "" if found is None else found(shape)
    for name in ("l0_i2h_weight", "i2h_weight"):  # for recurrent layers and cells
        wanted = (block._reg_params[name].shape or (0, 0))[1] if name in block._reg_params else 0
        if wanted > 0 and shape[-1] != wanted:
            text = (
                f"the layer has input_size={wanted}, but a step of the data has {shape[-1]} values"
            )
    return f"\n    {text}" if text else ""


def described_line(error: BaseException) -> str:
    """Return the innermost line outside mxlite at which an error was raised, and the error text."""
    text = str(error).split("\n    in ", 1)[0]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    forwards = [frame for frame in own if frame.name in ("forward", "hybrid_forward")]
    # If no forward is defined by the user, the remaining lines only call the network.
    if not forwards:
        return text
    return f"{own[-1].filename}:{own[-1].lineno}: {text}"
