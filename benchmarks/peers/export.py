"""Write the layer list of a network; run by run.py so that no threads of mxlite live beside it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from layers import layer_list
from networks import build, example, input_size


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("path")
    parser.add_argument("--random", action="store_true", help="systems fill the parameters")
    parser.add_argument("--training", action="store_true", help="with the layers of training")
    options = parser.parse_args()
    net = build(options.network)
    net.infer_shape(example(options.network))
    content = {
        "network": options.network,
        "size": input_size(options.network),
        "random": options.random,
        "layers": layer_list(net, options.training),
    }
    Path(options.path).write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main()
