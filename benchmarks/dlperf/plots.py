"""Plots of a result file: throughput, efficiency over ranks, peak memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dlperf.model_tables import TABLES, memory
from dlperf.tables import machine_name, own_rows


def _bars(axis: Any, content: dict[str, Any], value: Any, errors: Any) -> None:
    cells = content["cells"]
    systems = list(dict.fromkeys(name for cell in cells for name in cell["systems"]))
    width = 0.8 / max(1, len(systems))
    for number, system in enumerate(systems):
        present = [(i, c["systems"][system]) for i, c in enumerate(cells) if system in c["systems"]]
        places = [i + (number - (len(systems) - 1) / 2) * width for i, _ in present]
        heights = [value(figures) for _, figures in present]
        spread = None
        if errors is not None:
            low = [max(0.0, value(figures) - figures["q1"]) for _, figures in present]
            high = [max(0.0, figures["q3"] - value(figures)) for _, figures in present]
            spread = [low, high]
        axis.bar(places, heights, width, yerr=spread, capsize=3, label=system)
    axis.set_xticks(range(len(cells)), [cell["name"].replace(" size", "\nsize") for cell in cells])
    axis.tick_params(axis="x", labelsize=7)
    axis.grid(axis="y", alpha=0.3)
    if systems:
        axis.legend(fontsize=8)


def _efficiency(axis: Any, content: dict[str, Any]) -> bool:
    """Draw the rate of a device as a share of a single device's; return whether any is drawn."""
    drawn = False
    for model in dict.fromkeys(cell["case"]["model"] for cell in content["cells"]):
        for row in [] if model in TABLES else own_rows(content, model):
            points = sorted((int(count), rate) for count, rate in row["rates"].items())
            if points[0][0] != 1 or len(points) < 2:
                continue
            one = points[0][1]
            measured = [point for point in points if point[0] not in row["predicted"]]
            name = f"{row['framework']} b{row['batch']}"
            for part, style, label in (
                (measured, "o-", name),
                ([p for p in points if p[0] in row["predicted"]], "x--", f"{name}, predicted"),
            ):
                if part:
                    shares = [rate / count / one for count, rate in part]
                    axis.plot([count for count, _ in part], shares, style, label=label)
            drawn = True
    if drawn:
        axis.set(xlabel="ranks", ylabel="efficiency", ylim=(0, 1.1))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    return drawn


def plot(content: dict[str, Any], folder: Path, stem: str) -> list[Path]:
    """Draw the plots of a result file.

    Parameters
    ----------
    content : dict
        The result file.
    folder : Path
        Folder of the plots, which is made if it does not exist.
    stem : str
        Beginning of the files' names.

    Returns
    -------
    list of Path
        ``<stem>_throughput.png``, ``_memory.png`` and, with several ranks, ``_efficiency.png``.

    Raises
    ------
    SystemExit
        matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("dlperf: --plots needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    title = f"{machine_name(content)}, commit {content['commit']}"
    written = []
    for kind in ("throughput", "memory", "efficiency"):
        figure, axis = pyplot.subplots(figsize=(9, 5))
        drawn = bool(content["cells"])
        if kind == "throughput":
            _bars(axis, content, lambda figures: figures["median"], True)
            axis.set_ylabel("samples/s, quartiles of turns")
        elif kind == "memory":
            _bars(axis, content, lambda figures: memory(figures["memory"]), None)
            axis.set_ylabel("peak memory of a rank, MiB")
        else:
            drawn = _efficiency(axis, content)
        axis.set_title(title, fontsize=9)
        if drawn:
            figure.tight_layout()
            written.append(folder / f"{stem}_{kind}.png")
            figure.savefig(written[-1], dpi=110)
        pyplot.close(figure)
    return written
