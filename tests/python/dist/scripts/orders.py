"""All-reduces in any order, repeated at once, in groups, and with changing shapes.

If the cache is small, its numbers are given to other names all the time.
"""

import random
import time

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np

hvd.init()
rank, size = hvd.rank(), hvd.size()
common = random.Random(3)  # the same on all ranks
own = random.Random(100 + rank)

STEPS = 40
NAMES = [f"tensor{i}" for i in range(24)]
shapes = {name: (common.randint(1, 50), common.randint(1, 9)) for name in NAMES}
kept = {name: mx.nd.ones((3,)) for name in NAMES}
for step in range(STEPS):
    if step % 7 == 6:
        changed = common.choice(NAMES)
        shapes[changed] = (common.randint(1, 50), 2)
    grouped = common.sample(NAMES, 6)
    twice = [name for name in NAMES if name not in grouped and common.random() < 0.2]
    jobs = [[name] for name in NAMES if name not in grouped] + [grouped[:3], grouped[3:]]
    own.shuffle(jobs)
    results = []
    for names in jobs:
        arrays = [mx.nd.full(shapes[name], rank + int(name[6:]) + step) for name in names]
        if len(names) > 1:
            hvd.grouped_allreduce_(arrays, name="+".join(names), op=hvd.Sum)
        else:
            hvd.allreduce_(arrays[0], name=names[0], op=hvd.Sum)
        results.append((names, arrays))
        if own.random() < 0.1:
            time.sleep(own.random() * 0.002)
    expected = size * (size - 1) / 2
    for names, arrays in results:
        for name, array in zip(names, arrays):
            value = expected + size * (int(name[6:]) + step)
            np.testing.assert_array_equal(array.asnumpy(), np.full(shapes[name], value), name)
    # The second call of a name begins while the first may be unfinished. All ranks make these calls
    # in the same order.
    for name in twice:
        hvd.allreduce_(kept[name], name=name, op=hvd.Average)
        hvd.allreduce_(mx.nd.ones((2,)), name=name, op=hvd.Sum)
for name in NAMES:
    np.testing.assert_array_equal(kept[name].asnumpy(), np.ones((3,)), name)
print("done")
