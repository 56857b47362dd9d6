r"""Compare the accuracies of trained networks on the same pairs.

    python compare.py --network s4 --image-size 32 --val glyphs/glyphs.bin full partial

Every folder is one that ``train.py --checkpoints`` wrote. Prints the accuracy of its last network,
and for each further folder the difference from the first one. The standard errors are those of
independent pairs; for a difference, only those pairs count that exactly one of both networks
classifies wrongly.
"""

from __future__ import annotations

import argparse

import mxlite as mx
import numpy as np
from mxlite import checkpoint
from networks import NETWORKS, make_network
from verification import embed_pairs, pair_distances, read_pairs, right_pairs


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("folders", nargs="+", help="folders of checkpoints")
    add("--network", default="r50", choices=NETWORKS)
    add("--embedding", type=int)
    add("--image-size", type=int, default=112)
    add("--val", required=True, help=".bin file of pairs")
    add("--batch-size", type=int, default=64)
    args = parser.parse_args(argv)
    images, same = read_pairs(args.val)
    first: np.ndarray | None = None
    for folder in args.folders:
        net = make_network(args.network, args.embedding, args.image_size)
        net.initialize()
        net(mx.nd.zeros((1, 3, args.image_size, args.image_size), dtype="uint8"))
        found = checkpoint.CheckpointManager(folder).load_latest(net=net)
        if found is None:
            raise SystemExit(f"insightface: {folder} must have a checkpoint")
        net.hybridize(static_alloc=True, static_shape=True)
        embeddings = embed_pairs(net, images, args.image_size, args.batch_size)
        right = right_pairs(pair_distances(embeddings)[0], same).astype(np.float64)
        error = np.sqrt(len(right))
        line = f"{folder}, step {found['step']}: {right.mean():.4f} +- {right.std() / error:.4f}"
        if first is None:
            first = right
        else:
            change = right - first
            line += f", difference {change.mean():+.4f} +- {change.std() / error:.4f}"
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
