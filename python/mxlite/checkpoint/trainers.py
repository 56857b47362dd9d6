"""Optimizer states in checkpoints, matched to parameters by structural names in the blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base import FileFormatError
from ..gluon.block import Block
from ..gluon.trainer import Trainer
from ..gluon.trainer.checks import check_state
from ..gluon.trainer.state_matching import arranged, described

__all__ = ["matched_state", "trainer_state"]

_NAMES = "structural_names"  # list of [key of the block in the checkpoint, name in the block]


def trainer_state(trainer: Trainer, blocks: Mapping[str, Block]) -> dict[str, Any]:
    """Return a trainer's state, with the structural names of its parameters."""
    names: dict[int, list[list[str]]] = {}
    for key, block in blocks.items():
        for name, param in block._collect_params_with_prefix().items():
            names.setdefault(id(param), []).append([key, name])
    state = trainer.state_dict()
    entries = zip(state["parameters"], trainer._params)
    state["parameters"] = [{**entry, _NAMES: names.get(id(param), [])} for entry, param in entries]
    return state


def matched_state(
    trainer: Trainer, state: dict[str, Any], blocks: Mapping[str, Block], source: str
) -> dict[str, Any]:
    """Return a saved state, renumbered by a trainer's parameters, for its ``load_state_dict``."""
    saved = state.get("parameters")
    try:
        known = {} if saved is None else _known(trainer, saved, blocks, source)
    except (AttributeError, TypeError) as error:
        raise FileFormatError(f"{source}: unexpected structure of states: {error!r}") from error
    params = trainer._params
    trees = arranged(state["contexts"], saved, params, trainer.optimizer, source, known)
    matched = {**state, "contexts": trees}
    if saved is not None:
        matched["parameters"] = described(params)
    check_state(matched, source, trainer.optimizer, trainer._amp_loss_scaler)
    return matched


def _known(
    trainer: Trainer, saved: Any, blocks: Mapping[str, Block], source: str
) -> dict[int, int]:
    """Map positions in the file to positions in the trainer, for parameters of the blocks."""
    own = {id(param): position for position, param in enumerate(trainer._params)}
    params = {key: block._collect_params_with_prefix() for key, block in blocks.items()}
    known = {}
    for position, entry in enumerate(saved):
        names = [(key, name) for key, name in entry.get(_NAMES, ()) if key in params]
        found = [id(params[key][name]) for key, name in names if name in params[key]]
        if names and not any(param in own for param in found):
            key, name = names[0]
            raise FileFormatError(
                f"{source}: the trainer differs: it was saved with parameter {name!r} of {key!r}, "
                "which is not among the parameters of this trainer"
            )
        if names:
            known[position] = next(own[param] for param in found if param in own)
    return known
