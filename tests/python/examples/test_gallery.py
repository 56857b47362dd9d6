"""Every entry of the gallery runs with --smoke, prints its result and writes its picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from processes import run_python

ROOT = Path(__file__).resolve().parents[3]
GALLERY = ROOT / "examples" / "gallery"

# name: script, options, and what its last line says
ENTRIES = {
    "classification": ("digits/train.py", ["--picture"], r"accuracy 0\.\d+"),
    "horovod": (
        "distributed/digits.py",
        ["--compare", "1", "2", "--plot"],
        r"2 processes: largest relative difference [\d.]+e-\d+",
    ),
    "dcgan": ("", ["--picture"], r"certainty of a classifier 0\.\d+, evenness .* 0\.\d+"),
    "fine_tuning": ("", ["--picture"], r"from scratch 0\.\d+, fine-tuned 0\.\d+"),
    "recommender": ("", ["--picture"], r"error 0\.\d+ after epoch \d+, means of the films .*"),
    "reinforcement_learning": ("", ["--picture"], r"mean length of the last 20 episodes \d+"),
    "segmentation": ("", ["--picture"], r"mean intersection over union 0\.\d+ .*"),
    "ssd": ("", ["--picture"], r"mean average precision 0\.\d+"),
    "tabular": ("", ["--picture"], r"area under the curve: network 0\.\d+, .*"),
    "time_series": ("", ["--picture"], r"mean absolute error [\d.]+, of the day before .*"),
    "translation": ("", ["--picture"], r"translated without error: 0\.\d+"),
    "word_language_model": ("", ["--picture"], r"perplexity of held-out text [\d.]+, .*"),
}


def test_every_script_of_the_gallery_has_an_entry_and_a_page():
    own = {name for name, (script, _, _) in ENTRIES.items() if not script}
    assert own == {path.stem for path in GALLERY.glob("*.py")}
    pages = {path.stem for path in (ROOT / "docs" / "gallery").glob("*.md")}
    assert pages - {"index"} == set(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_pages_show_the_command_and_a_small_picture(name):
    script, _, _ = ENTRIES[name]
    text = (ROOT / "docs" / "gallery" / f"{name}.md").read_text()
    assert f"examples/{script or f'gallery/{name}.py'}" in text
    picture = ROOT / "docs" / "gallery" / f"{name}.png"
    assert f"({picture.name})" in text
    assert picture.stat().st_size <= 60_000


@pytest.mark.parametrize("name", ENTRIES)
def test_example_learns_and_draws(name, tmp_path):
    script, options, last = ENTRIES[name]
    if name == "time_series":
        pytest.importorskip("gluonts")
    if name == "reinforcement_learning":
        pytest.importorskip("gymnasium")
    path = ROOT / "examples" / script if script else GALLERY / f"{name}.py"
    # One thread, because threads wait for each other while other processes use their cores.
    done = run_python(
        path,
        "--smoke",
        *options,
        "picture.png",
        cwd=tmp_path,
        environment={"OMP_NUM_THREADS": "1"},
        timeout=240,
    )
    assert re.fullmatch(last, done.stdout.splitlines()[-1]), done.stdout
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_a_table_of_a_file(tmp_path):
    rows = [f"{i},{'red' if i % 3 else 'blue'},{'yes' if i > 20 else 'no'}" for i in range(40)]
    (tmp_path / "table.csv").write_text("\n".join(["size,color,bought", *rows]))
    script = GALLERY / "tabular.py"
    options = ["--data", "table.csv", "--target", "bought", "--smoke"]
    done = run_python(script, *options, cwd=tmp_path, environment={"OMP_NUM_THREADS": "1"})
    assert float(re.search(r"network ([\d.]+)", done.stdout)[1]) > 0.9
    options[3] = "sold"
    done = run_python(script, *options, cwd=tmp_path, ok=False)
    assert "must have a column 'sold'" in done.stderr
