"""Structure and parameters of a block in two files (``Block.save`` and ``Block.load``).

Parameters are matched by the position of their block among its siblings, so a file still loads
after attributes were renamed.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..._files.saving import replacing_file
from ..._files.whole import read_file
from ...base import FileAccessError, FileFormatError, MissingFileError
from ..call_types import BlockLike
from ..parameter import Parameter
from ..parameter.files import load_into, load_named

__all__ = ["load_model", "save_model"]


def save_model(block: BlockLike, prefix: str) -> None:
    """Write ``<prefix>-model.params`` and ``<prefix>-model.json``."""
    block.save_parameters(f"{prefix}-model.params")
    text = json.dumps(_described(block), indent=1)
    with replacing_file(f"{prefix}-model.json") as stream:
        stream.write(text.encode())


def load_model(block: BlockLike, prefix: str) -> None:
    """Load a file pair written by `save_model` into a block of the same structure."""
    path = f"{prefix}-model.json"
    try:
        tree = json.loads(read_file(path))
    except FileNotFoundError as error:
        raise MissingFileError(f"load: file {path!r} does not exist") from error
    except OSError as error:
        raise FileAccessError(f"load: cannot read {path!r}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"load: file {path!r} is not a JSON text: {error}") from error
    params: dict[str, list[Parameter]] = {}
    try:
        _match(block, tree, "", params, f"file {path!r}")
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(
            f"load: file {path!r} does not describe a model: {error!r}"
        ) from error
    source = f"{prefix}-model.params"
    load_into(
        params,
        load_named(source),
        f"file {os.fspath(source)!r}",
        ctx=None,
        allow_missing=False,
        ignore_extra=False,
        cast_dtype=False,
        dtype_source="current",
    )


def _described(block: BlockLike) -> dict[str, Any]:
    """Return class, parameters and children of a block as JSON values."""
    return {
        "class": type(block).__name__,
        "parameters": list(block._reg_params),
        "children": [[name, _described(child)] for name, child in block._children.items()],
    }


def _match(
    block: BlockLike, tree: Any, path: str, params: dict[str, list[Parameter]], source: str
) -> None:
    """Return the block's parameters by the names under which they were saved."""
    where = path or "the model"
    if tree["class"] != type(block).__name__:
        raise FileFormatError(
            f"load: {where} must be a {tree['class']}, as {source} describes it, got a "
            f"{type(block).__name__}"
        )
    children = list(block._children.values())
    if len(tree["children"]) != len(children) or len(tree["parameters"]) != len(block._reg_params):
        raise FileFormatError(
            f"load: {source} describes {where} with {len(tree['children'])} children and "
            f"{len(tree['parameters'])} parameters, it has {len(children)} and "
            f"{len(block._reg_params)}"
        )
    dot = path + "." if path else ""
    for name, param in zip(tree["parameters"], block._reg_params.values()):
        params[dot + name] = [param]
    for (name, description), child in zip(tree["children"], children):
        _match(child, description, dot + name, params, source)
