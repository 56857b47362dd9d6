"""Compares how long compute threads poll before they sleep: several settings in turns.

    python benchmarks/peers/waiting.py --neighbours 0 1 2 --json out.json

The settings are variables that mxlite reads when it is imported.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cell import Cell, System, Worker
from command_line import add_options
from common import report, usable_cores, write_json
from run import entries, ratio_table, write_spec

# The first setting is libgomp's own default.
SETTINGS = [
    "GOMP_SPINCOUNT=300000",
    "GOMP_SPINCOUNT=20000",
    "GOMP_SPINCOUNT=5000",
    "GOMP_SPINCOUNT=1000",
    "OMP_WAIT_POLICY=passive",
]
CELLS = [("resnet-50", 1), ("resnet-50", 32), ("bert-base", 8)]


class SettingWorker(Worker):
    """mxlite in an environment with the setting that the system's variant names."""

    def launcher(self, system: System) -> list[str]:
        """Return the start of the command line."""
        return ["env", system.variant, system.python]


class SettingCell(Cell):
    """One network and batch size with all settings."""

    WORKER = SettingWorker


def main() -> None:
    """Measure what the command line names."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--neighbours", nargs="+", type=int, default=[0, 1, 2])
    line.add_argument("--settings", nargs="+", default=SETTINGS)
    add_options(line, "json", rounds=5, turn=1.0)
    options = line.parse_args()
    systems = [System("mxlite", setting, ("float32",)) for setting in options.settings]
    results, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for busy in options.neighbours:
            cells = []
            for network, batch in CELLS:
                spec = write_spec(network, Path(folder), random=False)
                cell = SettingCell(network, "float32", batch)
                cell.run(systems, spec, usable_cores(), options.rounds, options.turn, busy)
                cells.append(cell)
            print(f"{busy} neighbours")
            print(ratio_table(cells, systems), flush=True)
            results += [
                {**entry, "name": f"{entry['name']} beside {busy}", "neighbours": busy}
                for entry in entries(cells)
            ]
            ratios += [{**cell.ratios(str(systems[0])), "neighbours": busy} for cell in cells]
    if options.json:
        settings = {key: value for key, value in vars(options).items() if key != "json"}
        write_json(options.json, report("waiting", settings, results, ratios=ratios))


if __name__ == "__main__":
    main()
