"""Checks in many all-reduces, with fusion and cache, that all ranks' parameters stay equal.

    python tests/faults/soak.py --steps 100000 --json result.json

Each rank has arrays of several sizes, adds to each in every step the sum of all ranks' gradients,
and calls the all-reduces in an order of its own. Every 1,000 steps the ranks also sum a large
array, which is reduced in place. After every ``--every`` steps they compare the CRC-32 of all
parameters. Gradients are small whole numbers, so that all sums are exact: at the end the parameters
must be what NumPy gets from the seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from fault_jobs import start_job, tail, write

# SIZES and LARGE are sizes of arrays. Each step takes one of the POOL gradients of an array.
RANK = """
import json, random, sys, time, zlib
import numpy as np
import mxlite as mx
import mxlite.horovod as hvd

output, steps, every, seed = sys.argv[1], *map(int, sys.argv[2:5])
SIZES, LARGE, POOL = (1, 7, 64, 1000, 4099, 20011), 300007, 16

def pools(rank):
    draw = np.random.default_rng([seed, rank])
    return [draw.integers(-2, 3, (POOL, n)).astype("float32") for n in (*SIZES, LARGE)]

hvd.init()
rank, size = hvd.rank(), hvd.size()
grads = [[mx.nd.array(row) for row in pool] for pool in pools(rank)]
params = [mx.nd.zeros((n,)) for n in (*SIZES, LARGE)]
works = [mx.nd.zeros((n,)) for n in (*SIZES, LARGE)]
own_order = random.Random(1000 * seed + rank)
order = list(range(len(SIZES)))
checks = differing = 0
begin = time.monotonic()
for step in range(steps):
    own_order.shuffle(order)
    chosen = order + [len(SIZES)] if step % 1000 == 999 else order
    for i in chosen:
        grads[i][(step * 7 + i) % POOL].copyto(works[i])
        hvd.allreduce_(works[i], op=hvd.Sum, name=f"grad{i}")
    for i in chosen:
        params[i] += works[i]
    if step % 16 == 15:
        mx.nd.waitall()  # ranks do not run far ahead of each other's queues
    if (step + 1) % every == 0:
        crc = 0
        for param in params:
            crc = zlib.crc32(param.asnumpy().tobytes(), crc)
        all_ = hvd.allgather(mx.nd.array([crc], dtype="int64"), name="crc").asnumpy()
        checks += 1
        differing += len(set(all_.tolist())) != 1
mx.nd.waitall()
seconds = time.monotonic() - begin
uses = np.zeros((len(SIZES) + 1, POOL))
for i in range(len(SIZES)):
    for step in range(min(steps, POOL)):
        uses[i, (step * 7 + i) % POOL] += (steps - step + POOL - 1) // POOL
for step in range(999, steps, 1000):
    uses[-1, (step * 7 + len(SIZES)) % POOL] += 1
exact = True
all_pools = [pools(r) for r in range(size)]
for i, param in enumerate(params):
    expected = sum(np.tensordot(uses[i], pool[i].astype("float64"), 1) for pool in all_pools)
    exact &= bool((param.asnumpy().astype("float64") == expected).all())
wrong = hvd.allreduce(mx.nd.array([not exact], dtype="int32"), op=hvd.Sum).asnumpy()[0]
if rank == 0:
    stats = mx._core.comm_stats()
    kept = ("rounds", "responses", "tensors", "bytes", "cache_hits")
    with open(output, "w") as file:
        json.dump({
            "checks": checks, "differing": differing, "seconds": round(seconds, 1),
            "ranks_with_wrong_values": int(wrong), **{key: int(stats[key]) for key in kept},
        }, file)
"""


def main() -> int:
    """Run the command line; 1 if checksums ever differed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-np", type=int, default=2, help="ranks")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=100, help="steps between comparisons")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        words = (str(output), str(args.steps), str(args.every), str(args.seed))
        begin = time.monotonic()
        code = start_job(Path(folder), RANK, args.np, *words).wait()
        if code:
            print(f"soak: the job ended with {code}\n{tail(Path(folder))}", file=sys.stderr)
            return 1
        found = json.loads(output.read_text())
    result = {
        "what": "steps of all-reduces with fusion and cache",
        "ranks": args.np,
        "steps": args.steps,
        "seed": args.seed,
        **found,
        "took": round(time.monotonic() - begin, 1),
    }
    write(result, args.json)
    good = found["checks"] == args.steps // args.every
    return 0 if good and found["differing"] == found["ranks_with_wrong_values"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
