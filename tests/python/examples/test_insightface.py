"""examples/insightface: networks, records, verification, glyphs, and training on 1 and 2 ranks."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import re
import sys
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from example_modules import load
from processes import run_python

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples" / "insightface"
faces, networks, script, verification, compare = load(
    "insightface", "faces", "networks", "train", "verification", "compare"
)
sys.path.insert(0, str(ROOT / "benchmarks"))
from dlperf.insightface import max_classes, recipe  # noqa: E402
from dlperf.styles import recognize  # noqa: E402

PIXELS = np.random.RandomState(0).randint(0, 256, (40, 16, 16, 3)).astype(np.uint8)


def encode(picture: np.ndarray) -> bytes:
    header = mx.recordio.IRHeader(0, 0.0, 0, 0)
    return mx.recordio.unpack(mx.recordio.pack_img(header, picture, img_fmt=".png"))[1]


@pytest.mark.parametrize(
    ("name", "embedding", "parameters"),
    [
        ("r18", 512, 24.0),
        ("r34", 512, 34.1),
        ("r50", 512, 43.6),
        ("r100", 512, 65.2),
        ("y1", 128, 1.0),
        ("s4", 128, 2.0),
    ],
)
def test_networks_have_the_sizes_of_the_readme(name, embedding, parameters):
    net = networks.make_network(name)
    net.initialize()
    assert net(mx.nd.zeros((1, 3, 112, 112), dtype="uint8")).shape == (1, embedding)
    counted = [p for p in net.collect_params().values() if not p.name.endswith(("mean", "var"))]
    assert sum(p.data().size for p in counted) / 1e6 == pytest.approx(parameters, abs=0.051)


def test_pairs_are_read_whatever_holds_their_bytes(tmp_path):
    images = [encode(picture) for picture in PIXELS]
    same = [i % 3 == 0 for i in range(20)]
    vectors = [np.frombuffer(image, np.uint8) for image in images]
    for protocol in (2, 3, 4, 5):
        for stored in (images, vectors):
            file = tmp_path / "pairs.bin"
            file.write_bytes(pickle.dumps((stored, same), protocol=protocol))
            read, labels = verification.read_pairs(file)
            assert read == images and labels.tolist() == same
    np.testing.assert_array_equal(
        verification.decode(images, 16), PIXELS[..., ::-1].transpose(0, 3, 1, 2)
    )
    assert verification.decode(images[:2], 32).shape == (2, 3, 32, 32)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (pickle.dumps(([b"a"], [True])), "two images for each boolean, got 1 and 1"),
        (pickle.dumps([b"a"]), "must hold images and booleans"),
        (pickle.dumps((["a", "b"], [True])), "image 0 must be bytes"),
        (pickle.dumps((print, [True])), "must be a .bin file"),
        (b"junk", "must be a .bin file"),
        (pickle.dumps(([b"a"] * 2, [True]))[:-3], "must be a .bin file"),
    ],
)
def test_other_files_are_no_pairs(tmp_path, content, problem):
    file = tmp_path / "pairs.bin"
    file.write_bytes(content)
    with pytest.raises(SystemExit, match=problem):
        verification.read_pairs(file)


def test_folds_are_those_of_scikit_learn():
    model_selection = pytest.importorskip("sklearn.model_selection")
    random = np.random.RandomState(1)
    embeddings = random.randn(2 * 123, 8)
    same = random.rand(123) < 0.5
    embeddings[1::2][same] = 0.6 * embeddings[1::2][same] + 0.5 * embeddings[0::2][same]
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    distances = ((unit[::2] - unit[1::2]) ** 2).sum(axis=1)
    accuracies, rates = [], []
    for train, test in model_selection.KFold(10).split(same):
        at = [np.mean((distances[train] < t) == same[train]) for t in np.arange(0, 4, 0.01)]
        best = np.arange(0, 4, 0.01)[int(np.argmax(at))]
        accuracies.append(np.mean((distances[test] < best) == same[test]))
        others = np.sort(distances[train][~same[train]])
        low = others[0]  # fewer than 1,000 pairs: the first wrong one is above 0.1 %
        rates.append(np.mean(distances[test][same[test]] < low))
    result = verification.verify(embeddings, same)
    assert result.accuracy == pytest.approx(np.mean(accuracies))
    assert result.std == pytest.approx(np.std(accuracies))
    assert result.norm == pytest.approx(np.linalg.norm(embeddings, axis=1).mean())
    assert result.validation_rate == pytest.approx(np.mean(rates), abs=0.03)
    assert 0.6 < result.accuracy < 1


def test_the_last_batch_of_embeddings_overlaps():
    sizes = []

    def network(x):
        sizes.append(len(x))
        x = x.astype("float32")
        return x.mean(axis=(2, 3)) + x[:, :, 0, :1].reshape((0, -1))

    pixels = PIXELS.transpose(0, 3, 1, 2)
    whole = verification.embed(network, pixels, 40)
    np.testing.assert_array_equal(verification.embed(network, pixels, 16), whole)
    assert set(sizes) == {40, 16}
    mirrored = verification.embed(network, pixels[..., ::-1], 40)
    np.testing.assert_allclose(mirrored, whole)

    sizes.clear()
    images = [encode(picture) for picture in PIXELS]
    some = [3, 1, 3, 2, 1, 0]
    repeated = verification.embed_pairs(network, [images[i] for i in some], 16, 40)
    first = verification.embed(network, verification.decode(images, 16), 40)
    np.testing.assert_array_equal(repeated, first[some])
    assert sizes == [4, 4, 40, 40]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write identities that differ in color, and pairs of them."""
    folder = tmp_path_factory.mktemp("faces")
    random = np.random.RandomState(2)
    colors = random.randint(30, 226, (12, 1, 1, 3))

    def sample(identity: int) -> bytes:
        noise = random.randint(-30, 31, (16, 16, 3))
        return encode((colors[identity] + noise).astype(np.uint8))

    faces.write_face_records(
        folder / "train.rec", [[sample(i) for _ in range(9 + i % 3)] for i in range(12)]
    )
    pairs = [(i % 12, (i + i // 30) % 12) for i in range(60)]
    images = [sample(identity) for pair in pairs for identity in pair]
    verification.write_pairs(folder / "lfw.bin", images, [a == b for a, b in pairs])
    return folder


def train(folder: Path, ranks: int, *args: object) -> tuple[str, dict]:
    """Run the script, with one rank in this process; return what it prints and its report."""
    file = folder / "run.json"
    options = ["--network", "y1", "--image-size", 16, "--embedding", 16, "--frequent", 1]
    options += ["--verbose", 100, "--scale", 8, "--threads", 1, "--json", file, *args]
    text = ""
    if ranks == 1:
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            script.main([str(option) for option in options])
        text = stream.getvalue()
    else:
        launch = ["-m", "mxlite.run", "-np", ranks, sys.executable, FOLDER / "train.py"]
        done = run_python(*launch, *options, OMP_NUM_THREADS="1", timeout=100)
        text = done.stdout + done.stderr
    return text, json.loads(file.read_text())


def test_training_ends_with_a_verification_and_continues_on_fewer_ranks(data, tmp_path):
    options = ["--rec", data / "train.rec", "--val", data / "lfw.bin", "--lr", 0.05]
    options += ["--batch-size", 8, "--dropout", 0, "--lr-steps", 20]
    text, alone = train(tmp_path, 1, *options, "--steps", 24)
    losses = list(alone["losses"].values())
    assert alone["classes"] == 12 and np.mean(losses[-3:]) < np.mean(losses[:3]) - 1
    (result,) = alone["results"]["lfw"].values()
    assert result["accuracy"] > 0.6
    assert re.search(r"\[lfw\]\[24\]Accuracy-Flip: [01]\.\d{5}\+-0\.\d{5}", text)
    assert recognize(text.splitlines()) == ["mxnet-partial-fc"]

    saved = [*options, "--checkpoints", tmp_path / "ckpt", "--sample-ratio", 0.5]
    _, whole = train(tmp_path, 1, *saved, "--steps", 12, "--save-interval", 6)
    for newest in (tmp_path / "ckpt").glob("*12*"):
        newest.rename(tmp_path / newest.name)
    _, again = train(tmp_path, 1, *saved, "--steps", 12)
    assert list(again["losses"]) == [str(step) for step in range(7, 13)]
    np.testing.assert_allclose(
        list(again["losses"].values()), list(whole["losses"].values())[6:], rtol=1e-4
    )
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        sizes = ["--network", "y1", "--image-size", "16", "--embedding", "16"]
        compare.main([*sizes, "--val", str(data / "lfw.bin"), *[str(tmp_path / "ckpt")] * 2])
    first, second = stream.getvalue().splitlines()
    accuracy = again["results"]["lfw"]["12"]["accuracy"]
    assert first.startswith(f"{tmp_path / 'ckpt'}, step 12: {accuracy:.4f} +- ")
    assert second == f"{first}, difference +0.0000 +- 0.0000"
    _, two = train(tmp_path, 2, *saved, "--steps", 16, "--mesh", "data=2")
    assert list(two["losses"]) == ["13", "14", "15", "16"]


def test_a_replicated_head_logs_as_speedometer_does(tmp_path):
    options = ["--head", "replicated", "--synthetic", 50, "--batch-size", 2, "--steps", 7]
    text, run = train(tmp_path, 2, *options)
    lines = [line for line in text.splitlines() if "INFO:root:Iter[0] Batch [" in line]
    assert len(lines) == 7 and recognize(lines) == ["mxnet-arcface"]
    assert all(np.isfinite(loss) for loss in run["losses"].values())


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ([], "either --rec or --synthetic"),
        (["--synthetic", 9, "--mesh", "tensor=1"], "--mesh must be data=N"),
        (["--synthetic", 9, "--mesh", "data=3"], "does not make"),
        (["--synthetic", 9, "--margins", "1,x,0"], "could not convert"),
        (["--synthetic", 9, "--head", "replicated", "--sample-ratio", 0.5], "needs --head sharded"),
        (["--rec", "/no/such.rec"], "no file '/no/such.rec'"),
    ],
)
def test_mistakes_are_named(tmp_path, args, problem):
    with pytest.raises(SystemExit, match=problem):
        train(tmp_path, 1, *args)


def test_glyphs_become_faces(tmp_path):
    pytest.importorskip("PIL")
    fonts = sorted(Path("/usr/share/fonts/truetype/dejavu").glob("DejaVuS*.ttf"))[:4]
    if len(fonts) < 4:
        pytest.skip("no DejaVu fonts")
    folder = tmp_path / "fonts"
    folder.mkdir()
    for font in fonts:
        (folder / font.name).symlink_to(font)
    sizes = ["--classes", 40, "--samples", 3, "--test-classes", 20, "--pairs", 40, "--size", 32]
    command = [FOLDER / "glyphs.py", "--fonts", folder, *sizes, "--out"]
    for out in ("a", "b"):
        run_python(*command, tmp_path / out)
    for name in ("train.rec", "train.idx", "glyphs.bin"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert faces.describe(tmp_path / "a" / "train.rec") == (40, 2)
    images, same = verification.read_pairs(tmp_path / "a" / "glyphs.bin")
    assert same.sum() == 20 and all(part.sum() == 2 for part in np.split(same, 10))
    assert verification.decode(images, 32).std() > 20
    (glyphs,) = load("insightface", "glyphs")
    with pytest.raises(SystemExit, match="have .* and 9; unpack these packages .* fonts-noto-cjk"):
        glyphs.choose(glyphs.find_faces([str(folder)]), 10**6, 9)


def test_the_benchmarks_of_the_head_run(monkeypatch, capsys, tmp_path):
    folder = ROOT / "benchmarks" / "dlperf" / "insightface"
    small = ["--classes", 600, "--rounds", 2, "--steps", 1, "--threads", 1]
    run_python(folder / "head.py", *small, "--json", tmp_path / "head.json")
    report = json.loads((tmp_path / "head.json").read_text())
    part, whole, ratio = (entry["median"] for entry in report["results"])
    assert part > 0 and whole > 0 and ratio > 0
    assert report["results"][2]["unit"] == "mxlite ratio 1.0 / mxlite ratio 0.1"
    assert report["first_losses"]["mxlite ratio 1.0"] > report["first_losses"]["mxlite ratio 0.1"]
    assert 600 * 4096 < max_classes.peak(600, 0.1, 2) < 12_000_000
    monkeypatch.setattr(max_classes, "peak", lambda classes, ratio, batch: 10**6 + 4200 * classes)
    monkeypatch.setattr(sys, "argv", ["max_classes.py", "--memory-gb", "0.1"])
    max_classes.main()
    (found,) = re.findall(r"largest: (\d+) classes in 0.1 GB", capsys.readouterr().out)
    assert 0.98 * 99e6 < 4200 * int(found) <= 99e6


# The worker of the benchmark, as benchmarks/dlperf/worker.py uses it.
WORKER = """
import json, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/peers"]
from dlperf.insightface import on_mxlite
training = on_mxlite.prepare(json.loads(sys.argv[2]), "hybrid")
losses = [training.fetch(training.step()) for _ in range(2)]
training.read_records()
print(json.dumps(losses + [training.fetch(training.step()) for _ in range(3)]))
"""


def test_the_benchmark_trains_each_division_of_the_classes(tmp_path):
    case = {"network": "y1_30", "size": 32, "batch": 4, "dtype": "float32", "data": "real"}
    recipe.write_records(tmp_path / "data", case, 8)
    assert faces.describe(tmp_path / "data.rec") == (30, 2)
    first = []
    for mode in ("data", "model", "partial_0.5"):
        spec = {"case": {**case, "mode": mode}, "rank": 0, "ranks": 1, "threads": 1}
        spec["record"] = str(tmp_path / "data")
        losses = json.loads(run_python("-c", WORKER, ROOT / "benchmarks", json.dumps(spec)).stdout)
        assert len(losses) == 5 and np.isfinite(losses).all()
        first.append(losses[0])
    assert len(set(first)) == 3  # three heads, whose centres differ


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"network": "y1", "mode": "data"}, "network must be NETWORK_CLASSES, got 'y1'"),
        (
            {"network": "y1_9", "mode": "half"},
            "mode must be data, model or partial_SHARE, got 'half'",
        ),
    ],
)
def test_a_wrong_case_of_the_benchmark_is_named(case, words):
    with pytest.raises(ValueError, match=words):
        recipe.sizes(case), recipe.division(case)
