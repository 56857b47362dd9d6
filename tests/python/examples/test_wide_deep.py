"""examples/wide_deep: readers, preparation, one loss on any number of ranks, checkpoints, AUC."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from example_modules import load, run_script

model, prepare, rows, flights, movielens = load(
    "wide_deep", "model", "prepare", "rows", "flights", "movielens"
)

TINY = [
    "--batch", "128", "--hidden", "16", "--layers", "2", "--dropout", "0", "--dim", "4",
    "--log-interval", "4", "--eval-interval", "8", "--lr", "0.01",
]  # fmt: skip


def write_criteo(path: Path, count: int) -> None:
    """Write rows whose label depends on the first category and the first number."""
    random = np.random.RandomState(1)
    lines = []
    for _ in range(count):
        ids = np.minimum(random.zipf(1.5, 26), 20)
        numbers = random.poisson(5, 13)
        label = int(random.rand() < (0.8 if ids[0] % 2 else 0.1) + 0.02 * numbers[0])
        texts = [str(n) if random.rand() > 0.1 else "" for n in numbers]
        texts += [f"{1000 * i + n:08x}" if i % 7 else "" for i, n in enumerate(ids)]
        texts[13] = f"{ids[0]:08x}"
        lines.append("\t".join([str(label), *texts]))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return prepared rows of a Criteo file."""
    folder = tmp_path_factory.mktemp("criteo")
    write_criteo(folder / "c.tsv", 1500)
    prepare.main(
        ["--train", str(folder / "c.tsv"), "--cross", "C1:C2,C3:C4", "--cross-buckets", "50",
         "--out", str(folder / "c")]
    )  # fmt: skip
    return folder / "c"


def run(ranks: int, *args: object, ok: bool = True) -> str:
    """Run train.py and return its output."""
    return run_script("wide_deep", ranks, "train.py", *args, ok=ok, timeout=120)


def train(data: Path, tmp_path: Path, ranks: int, *args: object) -> dict:
    file = tmp_path / "run.json"
    run(ranks, "--data", data, *TINY, *args, "--json", file)
    return json.loads(file.read_text())


def test_any_number_of_ranks_gives_one_loss_curve(data, tmp_path):
    """A checkpoint of 4 ranks is continued by 2."""
    options = ["--iterations", 16]
    alone = train(data, tmp_path, 1, *options)
    losses = list(alone["losses"].values())
    assert len(losses) == 4
    (early, _), (late, area) = alone["evaluations"].values()
    assert late < early and area > 0.75
    saved = ["--checkpoints", tmp_path / "ckpt", "--save-interval", 8]
    for ranks, more in ((2, []), (4, saved)):
        got = train(data, tmp_path, ranks, *options, *more)
        for key in ("losses", "evaluations"):
            np.testing.assert_allclose(
                list(got[key].values()), list(alone[key].values()), atol=2e-6, err_msg=str(ranks)
            )
    folder = tmp_path / "ckpt"
    assert {path.name for path in folder.glob("tables-*")} == {"tables-8", "tables-16"}
    next(path for path in folder.iterdir() if path.is_file() and "16" in path.name).unlink()
    got = train(data, tmp_path, 2, *options, *saved)
    np.testing.assert_allclose(list(got["losses"].values()), losses[2:], atol=2e-6)


@pytest.mark.parametrize(
    "args",
    [
        ["--growing", "--table-dtype", "bfloat16", "--optimizer", "adagrad", "--lr", 0.1],
        ["--dtype", "bfloat16", "--deep-vocab-size", 2000, "--policy", "hash"],
        ["--optimizer", "ftrl", "--dropout", 0.1, "--lr", 0.1],
        ["--cache-rows", 3000],
    ],
)
def test_options(data, tmp_path, args):
    found = train(data, tmp_path, 1, "--iterations", 16, *args)["evaluations"]
    assert found["16"][1] > 0.7, found


def columns(file: rows.FlatRows, name: str) -> np.ndarray:
    return np.asarray(file.records[name])


def test_preparation(data):
    """Ids run on over the columns; rare values share one; numbers are in [0, 1]."""
    files = [rows.FlatRows(f"{data}.{part}") for part in ("train", "test")]
    assert sum(map(len, files)) == 1500 and 100 < len(files[1]) < 200
    sizes = files[0].sizes
    assert (sizes.numbers, sizes.wide, sizes.deep, sizes.wide_rows) == (13, 2, 26, 100)
    deep = np.concatenate([columns(file, "deep") for file in files])
    highest = deep.max(axis=0)
    assert (deep.min(axis=0)[1:] > highest[:-1]).all() and highest[-1] < sizes.deep_rows
    assert len(set(deep[:, 7])) == 1  # always missing
    numbers = columns(files[0], "numbers")
    assert numbers.min() == 0 and 0.9 < numbers.max() <= 1
    wide = columns(files[0], "wide")
    assert wide[:, 0].max() < 50 <= wide[:, 1].min()


@pytest.mark.parametrize("format", ["csv", "libsvm", "parquet"])
def test_formats_give_the_same_rows(tmp_path, format):  # noqa: A002
    labels, colors, shapes, sizes = [1, 0, 1], ["red", "", "blue"], ["a", "b", "a"], [2.5, None, 1]
    path = tmp_path / f"rows.{format}"
    chosen = ["--label", "y", "--numbers", "size", "--categories", "color,shape"]
    if format == "csv":
        lines = zip(labels, colors, shapes, sizes)
        texts = [",".join("" if v is None else str(v) for v in line) for line in lines]
        path.write_text("\n".join(["y,color,shape,size", *texts]) + "\n")
    elif format == "libsvm":
        path.write_text("1 3:1 10:1\n0 4:1 11:1\n1 5:1 10:1\n")
        chosen = []
    else:
        pytest.importorskip("pyarrow")
        import pyarrow
        import pyarrow.parquet

        values = {"y": labels, "color": [c or None for c in colors], "shape": shapes, "size": sizes}
        pyarrow.parquet.write_table(pyarrow.table(values), path)
    prepare.main(["--format", format, "--train", str(path), "--test-share", "0", "--min-count", "1",
                  "--out", str(tmp_path / "out"), *chosen])  # fmt: skip
    file = rows.FlatRows(tmp_path / "out.train")
    assert columns(file, "label").tolist() == [1, 0, 1]
    deep = columns(file, "deep")
    assert deep[0, 1] == deep[2, 1] != deep[1, 1] and len(set(deep[:, 0])) == 3
    if format != "libsvm":
        assert columns(file, "numbers")[:, 0].tolist() == [1, 0, 0]
        assert deep[1, 0] == 0  # missing


def test_hashes_depend_on_the_text_only():
    texts = ["", "a", "b", "ab", "ba", "a" * 30]
    found = [prepare.hashes(np.array([text]))[0] for text in texts]
    assert prepare.hashes(np.array(texts)).tolist() == found
    assert len(set(found)) == 6 and max(found) < 2**63


def test_area_under_curve():
    random = np.random.RandomState(0)
    labels, scores = random.rand(300) < 0.3, np.round(random.rand(300), 1)
    wins = [(p > n) + 0.5 * (p == n) for p in scores[labels] for n in scores[~labels]]
    assert model.area_under_curve(labels, scores) == pytest.approx(np.mean(wins), abs=1e-12)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1\t2\n", "line 1: the line must have 40 fields, got 2"),
        ("2" + "\t" * 39 + "\n", "the label must be 0 or 1, got '2'"),
        ("1\tx" + "\t" * 38 + "\n", "the field must be a number, got 'x'"),
        ("", "the files have no rows"),
    ],
)
def test_wrong_files_are_refused(tmp_path, text, problem):
    (tmp_path / "c.tsv").write_text(text)
    with pytest.raises(SystemExit, match=problem):
        prepare.main(["--train", str(tmp_path / "c.tsv"), "--out", str(tmp_path / "c")])


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--mesh", "tensor=2"], "--mesh must be data=N"),
        (["--mesh", "data=3"], "does not make the 1 ranks"),
        (["--deep-vocab-size", 10**13], "rows fit"),
        (["--deep-vocab-size", 5, "--iterations", 1], "ids must be from 0 to 4"),
    ],
)
def test_mistakes_are_named(data, args, problem):
    assert problem in run(1, "--data", data, *TINY, *args, ok=False)


def test_cut_files_are_refused(data, tmp_path):
    for suffix in ("bin", "json"):
        content = Path(f"{data}.train.{suffix}").read_bytes()
        (tmp_path / f"c.train.{suffix}").write_bytes(content[:-1] if suffix == "bin" else content)
    with pytest.raises(SystemExit, match="must have .* bytes, got"):
        rows.FlatRows(tmp_path / "c.train")


def write_table(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines))


def test_late_flights_get_the_weather_of_their_hour(tmp_path):
    write_table(tmp_path / "weather.csv", ["origin,month,day,hour,temp", "JFK,11,2,7,50.5"])
    head = "year,month,day,hour,minute,arr_delay,carrier,flight,tailnum,origin,dest,distance"
    dates = ["2013,11,2,7,30,16", "2013,10,2,7,30,15", "2013,11,2,7,30,NA"]
    lines = [f"{date},AA,1,NA,JFK,MIA,1000" for date in dates]
    write_table(tmp_path / "flights.csv", [head, *lines])
    (test, late), (train, early) = flights.read(tmp_path)
    assert test and late["label"] == 1 and late["temp"] == "50.5" and late["tailnum"] == ""
    assert not train and early["label"] == 0 and early["temp"] == ""
    assert (late["weekday"], early["weekday"]) == (5, 2)  # a Saturday and a Wednesday


def test_ratings_are_rows_with_their_user_and_film(tmp_path):
    random = np.random.RandomState(3)
    people = [f"{u}\t{20 + u}\tM\twriter\t{u:05}" for u in range(30)]
    films = [f"{f}\tA title\t{'V' if f == 9 else 1990 + f}\tWar Drama" for f in range(40)]
    pairs = [(u, f) for u in range(30) for f in range(40) if random.rand() < 0.8]
    ratings = [f"{u}\t{f}\t{5 - (u + f) % 2 * 3}\t88{u:03}{f:03}" for u, f in pairs]
    for name, head, lines in (
        (
            "user",
            "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token",
            people,
        ),
        (
            "item",
            "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
            films,
        ),
        ("inter", "user_id:token\titem_id:token\trating:float\ttimestamp:float", ratings),
    ):
        write_table(tmp_path / f"ml-100k.{name}", [head, *lines])
    read = list(movielens.read(tmp_path))
    assert len(read) == len(pairs) and 0.05 < np.mean([test for test, _ in read]) < 0.15
    for (_, row), (user, film) in zip(read, pairs, strict=True):
        assert (row["user_id"], row["item_id"]) == (str(user), str(film))
        assert row["label"] == ((user + film) % 2 == 0)
        assert row["genre2"] == "Drama" and row["genre3"] == ""
        assert row["release_year"] == ("" if film == 9 else str(1990 + film))
    options = ["--iterations", 60, "--batch", 128, "--lr", 0.02, "--dropout", 0, "--no-baseline"]
    script = ["movielens.py", "--data", tmp_path, "--out", tmp_path / "ml", *options]
    printed = run_script("wide_deep", 1, *script, ok=True, timeout=120)
    area = float(printed.rsplit("eval_auc: ", 1)[1].split()[0])
    assert area > 0.8  # labels are the parity of user + film
