"""The committed list of the model zoo's operators is complete."""

from __future__ import annotations

import sys
from pathlib import Path

import mxlite as mx
import pytest
from mxlite.gluon.model_zoo import vision
from processes import run_python

sys.path.insert(0, str(Path(__file__).parent))
from zoo_ops import traced_ops

LISTED = (Path(__file__).parents[2] / "data/model_zoo_ops.txt").read_text().split()
NETWORKS = [name for name in vision._MODELS if not name.endswith("v1b")]


def test_list_is_what_small_networks_use(tmp_path: Path) -> None:
    script, graphs = Path(__file__).parent / "zoo_ops.py", {"MXLITE_DUMP_GRAPH": str(tmp_path)}
    done = run_python(script, environment=graphs)
    assert done.stdout.split() == LISTED, "run tests/python/gluon/zoo_ops.py again"


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_have_only_listed_operators(name: str) -> None:
    used = {mx._core.op(op).schema_name for op in traced_ops(name)}
    assert used and used <= set(LISTED)
