"""The table of the results of two processes."""

from __future__ import annotations

import json
from pathlib import Path

from result_table import Lines, markdown


def training_shares(results: Path) -> list[Lines]:
    """Return the rows of data-parallel training."""
    rows = []
    names = {
        "resnet50": "ResNet-50, {batch} images of {side} pixels",
        "bert": "BERT-base of 2 layers, {batch} texts of 128 words",
    }
    for file, form in names.items():
        content = json.loads((results / f"overlap_{file}.json").read_text())
        name = form.format(**content["settings"])
        for share, text in (
            ("job / independent", "`DistributedTrainer` / independent runs"),
            ("store / job", "`dist_sync` / `DistributedTrainer`"),
        ):
            low, high = content["share_quartiles"][share]
            middle = f"{content['shares'][share]:.1%}"
            rows.append([f"{name}: {text}", middle, f"{low:.1%} to {high:.1%}"])
    return rows


def divided_layers(results: Path) -> list[Lines]:
    """Return the rows of the divided multilayer perceptron."""
    content = json.loads((results / "tensor_parallel.json").read_text())
    rows = []
    for entry in content["results"]:
        for way, beside in (("one", "one rank alone"), ("each", "one of two busy ranks")):
            speedup = entry["speedups"][way]
            low, high = speedup["quartiles"]
            name = f"dense 1024-4096-1024, {entry['task']}, {entry['batch']} rows"
            rows.append(
                [
                    f"{name}: speed of 2 ranks relative to {beside}",
                    f"{speedup['median']:.2f}",
                    f"{low:.2f} to {high:.2f}",
                ]
            )
    return rows


def copies(results: Path) -> list[Lines]:
    """Return the rows of large collectives."""
    content = json.loads((results / "collectives.json").read_text())
    largest = max(entry["bytes"] for entry in content["results"])
    rows = []
    for entry in content["results"]:
        if entry["library"] != "mxlite" or entry["bytes"] != largest:
            continue
        limit = entry["of_limit"] * entry["seconds"]
        high, low = (limit / seconds for seconds in entry["quartiles"])
        name = f"{entry['operation'].replace('_', '-')} of {largest >> 20} MB: of the copy limit"
        rows.append([name, f"{entry['of_limit']:.0%}", f"{low:.0%} to {high:.0%}"])
    return rows


def operators(results: Path) -> list[Lines]:
    """Return the rows of small collective operators."""
    content = json.loads((results / "operator_time.json").read_text())
    rows = []
    for entry in content["results"]:
        before, _, way = entry["name"].partition(", ")
        if before != "over the communicator":
            continue
        how = {"with": "one after another", "apart": "independent of each other"}[way]
        name = f"all-reduce operators of 4 KB, {how}: us over the communicator's"
        rows.append([name, f"{entry['median']:.1f}", f"{entry['q1']:.1f} to {entry['q3']:.1f}"])
    return rows


def processes(results: Path) -> Lines:
    """Return the table of the results of two processes."""
    rows = [
        *training_shares(results),
        *divided_layers(results),
        *copies(results),
        *operators(results),
    ]
    content = json.loads((results / "overlap_bert.json").read_text())
    origin_line = f"Intel Xeon with AMX, 2 cores, commit {content['commit']}, {content['date']}:"
    return [origin_line, "", *markdown(["2 processes", "median", "quartiles"], rows)]
