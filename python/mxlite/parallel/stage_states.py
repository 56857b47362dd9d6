"""Parameters and optimizer states of all stages of a pipeline, for checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import FileFormatError
from ..comm.groups import Group, exchange_bytes
from ..gluon.parameter import ParameterDict
from ..gluon.trainer import Trainer
from ..gluon.trainer.state_matching import renumbered
from ..optimizer.states import bytes_of_tree, tree_of_bytes

__all__ = ["load_stage", "whole_state"]


def whole_state(group: Group, params: ParameterDict, trainer: Trainer | None) -> dict[str, Any]:
    """Return whole parameters by name, and the trainer's state; collective over the job."""
    own: dict[str, Any] = {
        "params": {
            name: param.data() if param.shard is None else param.full_data()
            for name, param in params.items()
        },
        "trainer": None if trainer is None else trainer.state_dict(),
    }
    contents = exchange_bytes(group, bytes_of_tree(own), "Pipeline.state_dict")
    stages = [tree_of_bytes(content, "the state of another stage") for content in contents]
    values: dict[str, Any] = {}
    for stage in reversed(stages):  # a shared parameter has the value of its first stage
        values.update(stage["params"])
    trained = [stage["trainer"] for stage in stages if stage["trainer"] is not None]
    return {"params": values, "trainer": _joined(trained) if trained else None}


def _joined(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one trainer's state with the parameters of all stages, numbered in their order."""
    numbers: dict[str, int] = {}
    entries: list[dict[str, Any]] = []
    trees = []
    for state in states:
        positions = {}
        for position, entry in enumerate(state["parameters"]):
            if entry["name"] not in numbers:
                numbers[entry["name"]] = len(entries)
                entries.append(entry)
            positions[position] = numbers[entry["name"]]
        trees.append(renumbered(state["contexts"][0], positions))
    joined = trees[0]
    attributes = joined["optimizer"]["attributes"]
    for tree in trees[1:]:
        joined["states"].update(tree["states"])
        for key, value in tree["optimizer"]["attributes"].items():
            if key == "_all_index_update_counts":
                for device, counts in value.items():
                    attributes[key].setdefault(device, {}).update(counts)
            elif isinstance(value, dict):
                attributes[key].update(value)
    return {**states[0], "contexts": [joined], "parameters": entries}


def load_stage(state: dict[str, Any], params: ParameterDict, trainer: Trainer | None) -> None:
    """Restore the parameters and optimizer states of one stage from those of all stages."""
    values, trained = state["params"], state["trainer"]
    missing = [name for name in params if name not in values]
    if missing:
        raise FileFormatError(
            f"Pipeline.load_state_dict: parameters {missing[:5]} are not in the state, which has "
            f"{list(values)[:5]} and {max(0, len(values) - 5)} others; give the blocks prefixes "
            "that do not depend on the number of stages"
        )
    if trainer is not None and trained is not None:
        own = [param.name for param in trainer._params]
        saved = {entry["name"]: number for number, entry in enumerate(trained["parameters"])}
        absent = [name for name in own if name not in saved]
        if absent:
            raise FileFormatError(
                f"Pipeline.load_state_dict: the state has no optimizer state of {absent[:5]}"
            )
        positions = {saved[name]: position for position, name in enumerate(own)}
        tree = renumbered(trained["contexts"][0], positions, drop=True)
        entries = [trained["parameters"][saved[name]] for name in own]
        trainer.load_state_dict({**trained, "contexts": [tree], "parameters": entries})
    for name, param in params.items():
        param.set_data(values[name])
