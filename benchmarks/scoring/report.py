"""Table and plot of scoring results beside the published figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import table

PUBLISHED = Path(__file__).resolve().parents[1] / "published" / "mxnet_perf.json"
# Columns of the table: the published machine nearest to two cores, and the one with all cells.
_SHOWN = {"c5.xlarge": "c5.xlarge CPU (2 cores)", "C4.8xlarge": "C4.8xlarge CPU"}


def published() -> dict[str, dict[str, dict[str, float]]]:
    """Return the published figures of the machines that the table shows.

    Returns
    -------
    dict
        Column title, batch size (text) and network to images/s.
    """
    scoring = json.loads(PUBLISHED.read_text(encoding="utf-8"))["scoring"]
    return {
        title: next(
            entry["images_per_second"] for key, entry in scoring.items() if key.startswith(prefix)
        )
        for title, prefix in _SHOWN.items()
    }


def text(results: list[dict[str, Any]], networks: dict[str, dict[str, Any]], threads: int) -> str:
    """Return the table of results.

    Parameters
    ----------
    results : list of dict
        Entries of the result file.
    networks : dict
        Network to what ``networks.describe`` returned.
    threads : int
        Cores in use, for the title.

    Returns
    -------
    str
        Lines.
    """
    figures = published()
    head = ["network", "conv+dense", "Mparam", "batch", "dtype", "images/s", "quartiles", "iters"]
    head += [f"MXNet {title}" for title in figures]
    rows = []
    for entry in results:
        facts = networks[entry["network"]]
        rows.append(
            [
                entry["network"],
                f"{facts['convolutions']}+{facts['dense']}",
                f"{facts['parameters'] / 1e6:.1f}",
                str(entry["batch"]),
                entry["dtype"],
                f"{entry['median']:.1f}",
                f"{entry['q1']:.1f}-{entry['q3']:.1f}",
                str(entry["measurements"]),
            ]
            + [
                f"{cell.get(str(entry['batch']), {}).get(entry['network'], '')}"
                for cell in figures.values()
            ]
        )
    note = (
        f"images/s on {threads} core(s), median of the timed iterations. Right: what MXNet's "
        "performance page published for 2 cores (c5.xlarge) and 36 threads (C4.8xlarge), float32."
    )
    return f"{table(head, rows)}\n{note}"


def plot(results: list[dict[str, Any]], path: str) -> str:
    """Draw images/s over the batch size, one panel for each network.

    Parameters
    ----------
    results : list of dict
        Entries of the result file.
    path : str
        PNG file to write.

    Returns
    -------
    str
        A sentence that says what was written, or why nothing was.
    """
    try:
        import matplotlib
    except ImportError:
        return "no plot: matplotlib is not installed"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figures = published()
    names = list(dict.fromkeys(entry["network"] for entry in results))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(4.2 * columns, 3.2 * lines), squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes.flat, names):
        for dtype in dict.fromkeys(entry["dtype"] for entry in results):
            cells = [e for e in results if e["network"] == name and e["dtype"] == dtype]
            if not cells:
                continue
            error = [
                [max(0.0, e["median"] - e["q1"]) for e in cells],
                [max(0.0, e["q3"] - e["median"]) for e in cells],
            ]
            axis.errorbar(
                [e["batch"] for e in cells],
                [e["median"] for e in cells],
                yerr=error,
                marker="o",
                capsize=3,
                label=f"mxlite {dtype}",
            )
        for title, cell in figures.items():
            known = [(int(size), row[name]) for size, row in cell.items() if name in row]
            if known:
                axis.plot(*zip(*known), linestyle=":", marker="x", label=f"MXNet {title}")
        axis.set_xscale("log", base=2)
        axis.set_ylim(bottom=0)
        axis.set_title(name)
        axis.set_xlabel("batch size")
        axis.set_ylabel("images/s")
        axis.legend(fontsize="x-small")
    for axis in list(axes.flat)[len(names) :]:
        axis.set_axis_off()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return f"plot: {path}"
