"""benchmarks/dlperf/bert/recipe.py: batches that the workers of all systems make."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from processes import run_python

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from dlperf.bert import recipe

# Environments of other frameworks have no mxlite; None makes its import fail.
WORKER = """
import json, sys
sys.modules["mxlite"] = None
sys.path.insert(0, sys.argv[1])
from dlperf.bert import recipe
spec = json.loads(sys.argv[2])
batches = [recipe.resident_batch(spec), next(recipe.file_batches(spec))]
print(json.dumps([{key: rows.tolist() for key, rows in batch.items()} for batch in batches]))
"""


def test_workers_make_the_batches_without_mxlite(tmp_path: Path) -> None:
    samples, _ = recipe.example_modules()
    made = recipe.make_samples(3, 24, 1)
    checked = samples.checked("random tokens", made, recipe.VOCABULARY, 24)
    recipe.write_number_arrays(checked, tmp_path / "numbers.npz")
    spec = {"case": {"batch": 3, "size": 24}, "rank": 0, "ranks": 1}
    spec["record"] = str(tmp_path / "numbers.npz")
    resident, read = json.loads(run_python("-c", WORKER, BENCHMARKS, json.dumps(spec)).stdout)
    assert np.array(resident["input_ids"]).shape == (3, 24)
    rows = {
        tuple(tokens[:length])
        for tokens, length in zip(read["input_ids"], read["valid_lengths"], strict=True)
    }
    assert rows == {tuple(tokens) for tokens in checked.input_ids}
    for key in samples.MASK_KEYS:
        assert np.count_nonzero(read[key]) == sum(
            np.count_nonzero(row) for row in getattr(checked, key)
        )
