"""DLPerf's models on mxlite and its peers in turns: rates, ratios, memory, MFU, one JSON file.

    benchmarks/peers/setup                                   # once: environments of the peers
    python benchmarks/dlperf/run.py resnet50 --preset smoke --json smoke.json --plots plots
    python benchmarks/dlperf/run.py all --preset full --device gpu --json gpu.json --logs logs

``step.md`` defines each model's training step. Every system runs in processes of its own, which
take turns; losses must agree before anything is timed. The file of --json is complete after each
case: the same command continues where an earlier one has ended. A system that fails, or is not
installed, leaves a cell that says why, and the others continue.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

# Puts peers first, because the module name `run` must mean the script in peers, not this script.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "io"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from cell import System
from command_line import add_options
from common import progress, progress_log, report, usable_cores
from run import chosen_systems, gpu_name, write_spec

from dlperf.cases import Case, Cell, cases, check_model, preset_rows
from dlperf.measure import SYSTEMS, DlperfCell, DlperfWorker
from dlperf.models import DATA, MODELS
from dlperf.peak import cpu_peak, gpu_peak
from dlperf.plots import plot
from dlperf.results import check_target, configuration, load, save
from dlperf.tables import all_tables, case_table

_ROUNDS = {"cpu": 3, "gpu": 7}
_SMOKE_ROUNDS = 2
_SMOKE_SYSTEMS = ["mxlite:hybrid", "mxnet:hybrid", "torch:eager"]
_SAMPLES = {"smoke": 256, "full": 16384}
_PHOTOS = {"smoke": 128, "full": 2048}
_GENERATED = {"smoke": 16, "full": 1024}  # documents of tokens, or what the recipe counts
_RESNET50 = "resnet50_v1b"


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("model", help=f"all, {', '.join(MODELS)}")
    line.add_argument("--preset", default="smoke", choices=["smoke", "full"])
    line.add_argument("--device", default="cpu", choices=["cpu", "gpu"])
    line.add_argument(
        "--systems",
        nargs="+",
        help=f"all, or some of {', '.join(str(system) for system in SYSTEMS)}; smoke takes "
        "torch:eager only, because compiling takes minutes",
    )
    line.add_argument(
        "--cells",
        nargs="+",
        default=[],
        metavar="DTYPE:BATCHxSIZE[:MODE]",
        help="instead of the preset's, such as float32:8x128 (tokens or pixels) or, of gpt, "
        "float32:1x128:sampling",
    )
    line.add_argument(
        "--steps",
        nargs=2,
        type=int,
        metavar=("WARM_UP", "MEASURED"),
        help="steps of a turn before and while it is measured, instead of the preset's",
    )
    line.add_argument(
        "--data", nargs="+", default=list(DATA), choices=DATA, help="default: %(default)s"
    )
    line.add_argument("--ranks", nargs="+", type=int, help="processes of a job: 1, on a CPU 1 2")
    line.add_argument(
        "--rounds", type=int, help="turns of each system: 7 on a GPU, else 3; smoke 2"
    )
    line.add_argument("--threads", type=int, default=usable_cores(), help="of all ranks together")
    line.add_argument("--record", type=Path, help="record file with an index; photographs if none")
    line.add_argument(
        "--samples", type=Path, help="gluon-nlp's .npz file for bert; random tokens if none"
    )
    line.add_argument("--json", type=Path, metavar="FILE", help="results; continued if it is there")
    line.add_argument("--logs", type=Path, metavar="DIR", help="a log of each turn for extract.py")
    line.add_argument(
        "--plots", type=Path, metavar="DIR", help="draw throughput, memory, efficiency"
    )
    line.add_argument(
        "--deadline", type=float, default=600.0, help="seconds for building, or a turn"
    )
    add_options(line, "mxnet-python", "peers-python")
    return line


def checked_options(arguments: list[str] | None) -> argparse.Namespace:
    """Return the command line with its defaults filled in.

    Parameters
    ----------
    arguments : list of str or None
        As in :func:`main`.

    Returns
    -------
    argparse.Namespace
        Every option has a value.

    Raises
    ------
    SystemExit
        For an unknown model, a number below 1, or a file that does not exist or cannot be written.
    """
    options = parser().parse_args(arguments)
    if options.model != "all":
        check_model(options.model)
    elif options.cells:
        raise SystemExit("dlperf: --cells belongs to one model, and all was given")
    try:
        options.cells = [str(Cell.parse(text)) for text in options.cells]
    except ValueError as error:
        raise SystemExit(f"dlperf: {error}") from None
    smoke = options.preset == "smoke"
    if options.rounds is None:
        options.rounds = _SMOKE_ROUNDS if smoke else _ROUNDS[options.device]
    if options.ranks is None:
        options.ranks = [1] if options.device == "gpu" else [1, 2]
    if options.systems is None:
        options.systems = _SMOKE_SYSTEMS if smoke else ["all"]
    for name in ("rounds", "threads"):
        if getattr(options, name) < 1:
            raise SystemExit(f"dlperf: --{name} must be at least 1, got {getattr(options, name)}")
    if options.steps and min(options.steps) < 1:
        raise SystemExit(f"dlperf: --steps must be at least 1, got {min(options.steps)}")
    if min(options.ranks) < 1:
        raise SystemExit(f"dlperf: --ranks must be at least 1, got {min(options.ranks)}")
    options.ranks, options.data, options.cells = (
        list(dict.fromkeys(values)) for values in (options.ranks, options.data, options.cells)
    )
    if not options.deadline > 0:
        raise SystemExit(f"dlperf: --deadline must be seconds above 0, got {options.deadline}")
    if options.device == "cpu" and any(cell.startswith("tf32") for cell in options.cells):
        raise SystemExit(
            "dlperf: --device must be gpu for --cells tf32, got cpu: only GPUs have TF32"
        )
    if options.cells:
        given = [Cell.parse(text) for text in options.cells]
        try:
            for cell in given:
                cell.row(preset_rows(options.model, options.preset, options.device))
        except ValueError as error:
            raise SystemExit(f"dlperf: {error}") from None
        sizes, (least, greatest) = [cell.size for cell in given], MODELS[options.model].sizes
        if not least <= min(sizes) <= max(sizes) <= greatest:
            raise SystemExit(
                f"dlperf: sizes of --cells must be {least} to {greatest} with {options.model}, "
                f"got {min(sizes)} to {max(sizes)}"
            )
    if options.json:
        check_target(options.json)
    if options.record and not options.record.exists():
        raise SystemExit(
            f"dlperf: --record {options.record} does not exist; python -m mxlite.tools.im2rec "
            "makes such a file from images"
        )
    if options.record and not options.record.with_suffix(".idx").exists():
        raise SystemExit(
            f"dlperf: {options.record.with_suffix('.idx')} does not exist; make it with "
            f"python -m mxlite.tools.rec2idx {options.record} "
            f"{options.record.with_suffix('.idx')}"
        )
    if options.samples and not options.samples.exists():
        raise SystemExit(
            f"dlperf: --samples {options.samples} does not exist; examples/bert/prepare.py makes "
            "such a file from text"
        )
    return options


def absent_systems(options: argparse.Namespace, chosen: list[System]) -> dict[str, str]:
    """Return why systems that were asked for do not run.

    Parameters
    ----------
    options : argparse.Namespace
        The command line.
    chosen : list of System
        Those that run.

    Returns
    -------
    dict
        System to reason.
    """
    asked = [str(s) for s in SYSTEMS] if options.systems == ["all"] else options.systems
    present = [str(system) for system in chosen]
    absent = [name for name in dict.fromkeys(asked) if name not in present]
    if options.device == "gpu":
        on_cpu = {name: "does not run on this GPU" for name in absent if name.startswith("mxnet")}
    else:
        on_cpu = {}
    hint = "not installed: benchmarks/peers/setup makes its environment"
    return {name: on_cpu.get(name, hint) for name in absent}


def write_case(case: Case, options: argparse.Namespace, record: Path | None, folder: Path) -> Path:
    """Write what the worker of a case needs: layers of the network, file of real data."""
    if case.model == "resnet50":
        spec = write_spec(_RESNET50, folder, random=False, training=True)
        content: dict[str, Any] = json.loads(spec.read_text())
    else:
        content = {"network": case.network, "layers": []}
    content.update(
        case=dataclasses.asdict(case),
        record="" if record is None else str(record),
        device=options.device,
        threads=max(1, options.threads // case.ranks),
    )
    path = folder / "case.json"
    path.write_text(json.dumps(content))
    return path


def unmeasured(case: Case, system: System) -> str:
    """Return why a system does not run a case, "" if it does."""
    if case.dtype not in system.dtypes:
        return f"not measured in {case.dtype}"
    if not MODELS[case.model].has_script(system.name):
        return f"not measured: benchmarks/dlperf/{case.model} has no on_{system.name}.py"
    if system.name in MODELS[case.model].alone and case.ranks > 1:
        return f"not measured: {system.name}'s script runs on one rank only"
    if system.name != "mxlite" and MODELS[case.model].copies(case) != case.ranks:
        return f"not measured: {system.name}'s script trains data-parallel copies only"
    return ""


def run_case(
    case: Case,
    options: argparse.Namespace,
    systems: list[System],
    spec: Path,
    peak: dict[str, Any] | None,
) -> dict[str, Any]:
    """Measure a case and return its figures.

    Parameters
    ----------
    case : Case
        What runs.
    options : argparse.Namespace
        The command line.
    systems : list of System
        mxlite first.
    spec : Path
        File for the workers.
    peak : dict or None
        Peak of one device.

    Returns
    -------
    dict
        As in ``DlperfCell.record``.
    """
    cell = DlperfCell(case, options.logs)
    DlperfWorker.ranks = case.ranks
    DlperfCell.deadline = options.deadline
    reasons = {str(system): unmeasured(case, system) for system in systems}
    runs = [system for system in systems if not reasons[str(system)]]
    cell.run(runs, spec, options.threads, options.rounds, 0.0)
    cell.reasons.update({name: reason for name, reason in reasons.items() if reason})
    devices = case.ranks if options.device == "gpu" else 1
    return cell.record(str(systems[0]), None if peak is None else peak["tflops"] * devices)


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison.

    Parameters
    ----------
    arguments : list of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0; 1 when a system that was asked for has no figures in a case.

    Raises
    ------
    SystemExit
        An unknown model or system, or a result file of another configuration.
    """
    options = checked_options(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    progress_log.setLevel(logging.DEBUG)  # the lines of progress() without a terminal
    names = list(MODELS) if options.model == "all" else [options.model]
    missing = {name: MODELS[name].missing for name in names if MODELS[name].missing}
    systems = chosen_systems(options, SYSTEMS)
    absent = absent_systems(options, systems)
    settings = {
        key: value
        for key, value in vars(options).items()
        if key not in ("json", "logs", "plots", "deadline") and "python" not in key
    }
    settings["record"] = "photographs" if options.record is None else options.record.name
    settings["samples"] = "random tokens" if options.samples is None else options.samples.name
    settings["systems"] = [str(system) for system in systems]
    settings["device_name"] = gpu_name() if options.device == "gpu" else ""
    content: dict[str, Any] = {
        "configuration": configuration(settings),
        "command": " ".join(["benchmarks/dlperf/run.py", *(arguments or sys.argv[1:])]),
        "cells": [],
        "peaks": {},
        "missing": missing,
    }
    if options.json:
        earlier = load(options.json, content["configuration"])
        if earlier is not None:
            content.update(cells=earlier["cells"], peaks=earlier["peaks"])
            print(f"{options.json}: {len(earlier['cells'])} cases are there already", flush=True)
    done = {cell["name"] for cell in content["cells"]}
    plan = [
        case
        for name in names
        if name not in missing
        for case in _cases(options, name)
        if case.name not in done
    ]
    with tempfile.TemporaryDirectory() as folder:
        files = _files(options, plan, Path(folder))
        for case in progress(plan, len(plan), "dlperf"):
            peak = _peak(options.device, settings, case.dtype, content["peaks"].get(case.dtype))
            if peak is not None:
                content["peaks"][case.dtype] = peak
            file = files.get(_file_key(case))
            spec = write_case(case, options, file, Path(folder))
            figures = run_case(case, options, systems, spec, peak)
            figures["reasons"].update(absent)
            content["cells"].append(figures)
            shown = {"cells": [figures]}
            print(case_table(shown), flush=True)
            if options.json:
                save(options.json, settings, content)
    complete = report("dlperf", settings, [], **content)
    print(all_tables(complete))
    if options.plots:
        for path in plot(complete, options.plots, f"dlperf_{options.model}"):
            print(f"plot: {path}")
    if options.json:
        print(f"figures: {options.json}")
    failed = [
        f"{cell['name']} {system}: {reason}"
        for cell in content["cells"]
        for system, reason in cell["reasons"].items()
        if not reason.startswith("not measured")
    ]
    for failure in failed:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failed else 0


def _cases(options: argparse.Namespace, model: str) -> list[Case]:
    cells = [Cell.parse(text) for text in options.cells]
    steps = tuple(options.steps) if options.steps else None
    return cases(model, options.preset, options.device, options.ranks, cells, options.data, steps)


def _files(
    options: argparse.Namespace, plan: list[Case], folder: Path
) -> dict[tuple[str, str, int], Path]:
    """Return what cases with real data read, by :func:`_file_key`; absent files are made."""
    files: dict[tuple[str, str, int], Path] = {}
    for case in plan:
        if case.data != "real" or _file_key(case) in files:
            continue
        if case.model == "resnet50":
            file = options.record or _photographs(options.preset)
        elif case.model != "bert":
            file = _generated(case, options.preset)
        elif options.samples:
            file = _given_samples(options.samples, case.size, folder)
        else:
            file = _token_samples(options.preset, case.size)
        files[_file_key(case)] = file
    return files


def _file_key(case: Case) -> tuple[str, str, int]:
    return case.model, case.network, case.size


def _generated(case: Case, preset: str) -> Path:
    """Return the file, or beginning of files, that the model's recipe makes, once."""
    recipe = importlib.import_module(f"dlperf.{case.model}.recipe")
    count = _GENERATED[preset]
    name = f"mxlite-{case.network or case.model}-{case.size}-{count}"
    folder = Path(tempfile.gettempdir()) / name
    if not folder.exists():
        partial = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        recipe.write_records(partial / "data", dataclasses.asdict(case), count)
        partial.rename(folder)
    return folder / "data"


def _given_samples(source: Path, size: int, folder: Path) -> Path:
    """Return the samples of gluon-nlp's file in a form that all workers read."""
    from dlperf.bert.recipe import VOCABULARY, write_number_arrays
    from dlperf.examples import load_example

    path = folder / f"samples-{size}.npz"
    files = load_example("bert", "pretraining_files")
    write_number_arrays(files.read_samples(source, VOCABULARY, size), path)
    return path


def _token_samples(preset: str, size: int) -> Path:
    """Return a file of sequences of random tokens with a maximum length; it is made once."""
    from dlperf.bert.recipe import VOCABULARY, example_modules, make_samples, write_number_arrays

    count = _SAMPLES[preset]
    path = Path(tempfile.gettempdir()) / f"mxlite-tokens-{size}-{count}.npz"
    if not path.exists():
        samples, _ = example_modules()
        made = samples.checked("random tokens", make_samples(count, size, 1), VOCABULARY, size)
        write_number_arrays(made, path)
    return path


def _photographs(preset: str) -> Path:
    """Return a record file of photographs, made once."""
    from photos import make_photos

    count = _PHOTOS[preset]
    return make_photos(Path(tempfile.gettempdir()) / f"mxlite-photos-{count}", count)


def _peak(
    device: str, settings: dict[str, Any], dtype: str, earlier: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return the data sheet's peak of a GPU; on a CPU the larger of two measured ones.

    Other programs slow a measurement down, and utilisations above 100 % would follow.
    """
    if device == "gpu":
        return gpu_peak(settings["device_name"], dtype)
    now = cpu_peak(dtype)
    return now if earlier is None or now["tflops"] > earlier["tflops"] else earlier


if __name__ == "__main__":
    sys.exit(main())
