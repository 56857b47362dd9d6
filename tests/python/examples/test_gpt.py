"""examples/gpt: one loss curve on any mesh, token files, sampling, imported parameters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from example_modules import load, run_script

ROOT = Path(__file__).resolve().parents[3]
generate, indexed, model, presets = load("gpt", "generate", "indexed", "model", "presets")

TINY = [
    "--vocab-size", "300", "--hidden", "32", "--layers", "4", "--heads", "4", "--length", "32",
    "--batch", "4", "--lr", "3e-3", "--dropout", "0", "--log-interval", "1", "--split", "80,20,0",
]  # fmt: skip


def run(ranks: int, *args: object, ok: bool = True) -> str:
    """Run a script of the folder and return its output."""
    return run_script("gpt", ranks, *args, ok=ok, timeout=240)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return token files of this project's pages, with a vocabulary of 300."""
    pytest.importorskip("tokenizers")
    out = tmp_path_factory.mktemp("gpt") / "text"
    pages = [
        ROOT / "examples" / f"{page}" for page in ("README.md", "gpt/README.md", "bert/README.md")
    ]
    lines = out.parent / "lines.jsonl"
    lines.write_text(json.dumps({"text": "A line of its own."}) + "\n")
    run(1, "prepare.py", *pages, lines, "--train-vocab", 300, "--out", out)
    return out


def train(text: Path, tmp_path: Path, ranks: int, *args: object) -> dict:
    file = tmp_path / "run.json"
    run(ranks, "pretrain.py", "--data", text, *TINY, *args, "--json", file)
    return json.loads(file.read_text())


def test_every_mesh_gives_one_loss_curve(text, tmp_path):
    """The checkpoint of 2 x 2 ranks is continued by 2 and by 1."""
    options = ["--iterations", 6, "--eval-interval", 3, "--micro-batch", 2]
    alone = train(text, tmp_path, 1, *options)
    curve = list(alone["losses"].values())
    assert len(curve) == 6 and curve[-1] < curve[0] - 0.15
    for ranks, mesh, *more in (
        (2, "tensor=2"),
        (2, "pipeline=2", "--recompute"),
        (2, "data=2", "--zero", 1),
        (4, "pipeline=2,tensor=2", "--sequence-parallel"),
    ):
        got = train(text, tmp_path, ranks, *options, "--mesh", mesh, *more)
        for key in ("losses", "evaluations"):
            np.testing.assert_allclose(
                list(got[key].values()), list(alone[key].values()), rtol=2e-4, err_msg=mesh
            )
    # Interrupted after 3 of 6 iterations on 4 ranks, continued on fewer.
    saved = ["--checkpoints", tmp_path / "ckpt", "--save-interval", 2]
    train(text, tmp_path, 4, *options, "--mesh", "pipeline=2,tensor=2", *saved)
    (tmp_path / "ckpt").joinpath(sorted(p.name for p in (tmp_path / "ckpt").iterdir())[-1]).unlink()
    got = train(text, tmp_path, 2, *options, "--mesh", "pipeline=2", *saved)
    assert list(got["losses"]) == ["5", "6"]
    np.testing.assert_allclose(list(got["losses"].values()), curve[4:], rtol=2e-4)
    out = run(1, "generate.py", "--checkpoints", tmp_path / "ckpt", "--tokenizer", text,
              "--prompt", "The ", "--count", 5, "--temperature", 0)  # fmt: skip
    assert out.startswith("The ")


def test_the_log_line_has_the_norm_of_all_ranks_gradients():
    norms = []
    for ranks in (1, 2):
        out = run(ranks, "pretrain.py", "--synthetic", *TINY, "--iterations", 2,
                  "--mesh", f"tensor={ranks}")  # fmt: skip
        norms.append(
            [float(n) for n in re.findall(r" lm loss: .* grad norm: (\d+\.\d{3}) \|", out)]
        )
    assert len(norms[0]) == 2 and min(norms[0]) > 0.1
    np.testing.assert_allclose(norms[1], norms[0], rtol=2e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_train_alike_in_one_and_two_stages(text, tmp_path, dtype):
    options = ["--iterations", 6, "--dtype", dtype]
    curves = []
    for ranks, mesh in ((1, "pipeline=1"), (2, "pipeline=2")):
        losses = train(text, tmp_path, ranks, *options, "--mesh", mesh)["losses"]
        curves.append(list(losses.values()))
    assert curves[0][-1] < curves[0][0] - 0.1
    np.testing.assert_allclose(*curves, rtol=5e-3)


def test_a_network_equals_the_plain_one():
    config = model.Config(32, 2, 2, 16, 50, 0.0, divisible_by=8)
    mesh = mx.parallel.mesh(pipeline=1, data=1, tensor=1).use()
    (stage,) = model.make_stages(config, mesh)
    model.initialize([stage], 0, 3)
    plain = model.make_plain(config)
    plain.initialize()
    own = stage._collect_params_with_prefix()
    theirs = plain._collect_params_with_prefix()
    names = model.plain_names(config.layers)
    assert {param.name for param in own.values()} == set(names)
    for param in own.values():
        target = theirs[names[param.name]]
        target.set_data(param.data().reshape(target.shape))
    tokens = mx.nd.array(np.random.RandomState(0).randint(0, 50, (2, 16)))
    np.testing.assert_allclose(stage(tokens).asnumpy(), plain(tokens).asnumpy(), atol=1e-6)
    prompt = [1, 2, 3]
    greedy = generate.sample(plain, prompt, 4, 50, temperature=0)
    for token in greedy:  # the cache gives what whole sequences give
        scores = plain(mx.nd.array([prompt]))[0, -1].asnumpy()[:50]
        assert scores.argmax() == token
        prompt = [*prompt, token]


def test_token_files_and_samples(tmp_path):
    random = np.random.RandomState(0)
    documents = [random.randint(0, 70000, n).tolist() for n in (5, 0, 17, 40, 3)]
    path = tmp_path / "tokens"
    assert indexed.write_indexed(path, documents, 70000) == 65
    tokens = indexed.IndexedTokens(path)
    assert tokens.dtype == np.int32 and [tokens.get(i).tolist() for i in range(5)] == documents
    for count in (3, 7, 8, 20):
        samples = indexed.Samples(tokens, np.arange(5, dtype=np.int32), 8, count, 1)
        assert len(samples) >= count
        rows = {tuple(samples[i]) for i in range(len(samples))}
        joined = [t for number in samples._order for t in documents[number]]
        wanted = {tuple(joined[i : i + 9]) for i in range(0, len(joined) - 8, 8)}
        assert rows == wanted
    assert [len(part) for part in indexed.split_documents(1000, "949,50,1")] == [949, 50, 1]


def test_token_files_at_addresses(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    documents = [list(range(n)) for n in (5, 0, 17)]
    indexed.write_indexed(tmp_path / "t", documents, 100)
    for suffix in ("bin", "idx"):
        content = (tmp_path / f"t.{suffix}").read_bytes()
        fsspec.filesystem("memory").pipe_file(f"/gpt/t.{suffix}", content)
    tokens = indexed.IndexedTokens("memory://gpt/t")
    assert [tokens.get(i).tolist() for i in range(3)] == documents
    assert tokens.get(2, 3, 4).tolist() == [3, 4, 5, 6]
    with pytest.raises(SystemExit, match="there is no file 'memory://gpt/none.idx'"):
        indexed.IndexedTokens("memory://gpt/none")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda b: b[:20], "no complete header"),
        (lambda b: b"x" + b[1:], "does not begin as an index"),
        (lambda b: b[:17] + b"\x06" + b[18:], "type code must be one of .*, got 6"),
        (lambda b: b[:-1], "sequences need"),
        (lambda b: b[:34] + b"\xff\xff\xff\x7f" + b[38:], "tokens outside"),
        (lambda b: b[:18] + b"\xff" * 8 + b[26:], "sequences need"),
    ],
)
def test_broken_indexes_are_refused(tmp_path, change, problem):
    indexed.write_indexed(tmp_path / "t", [[1, 2, 3]], 10)
    file = tmp_path / "t.idx"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(SystemExit, match=problem):
        indexed.IndexedTokens(tmp_path / "t")


def test_presets_have_the_published_figures():
    """96 B s l h^2 (1 + ...) and OneFlow's milliseconds give the TFLOP/s of the published table."""
    for name, published in (("DP_1x1x1_2_1536x16", 49.43), ("2D_PP_2x8x2_512_2304x24", 33.62)):
        c = presets.case(name)
        flops = presets.iteration_flops(c.batch, 2048, c.layers, c.hidden, 51200, recompute=True)
        devices = c.data * c.tensor * c.pipeline
        rate = flops / (presets.CASES[name][2] / 1000) / devices / 1e12
        assert rate == pytest.approx(published, rel=2e-3)
    for name in presets.CASES:
        c = presets.case(name)
        assert (
            c.batch % (c.micro_batch * c.data) == c.layers % c.pipeline == c.heads % c.tensor == 0
        )


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--synthetic", "--mesh", "data=x"], "--mesh must be sizes such as"),
        (["--synthetic", "--mesh", "tensor=3"], "does not divide"),
        (
            ["--synthetic", "--batch", "4", "--micro-batch", "3"],
            "does not divide into micro batches",
        ),
        (["--preset", "DP"], "there is no preset"),
        ([], "--data or --synthetic must be given"),
        (["--data", "/no/such"], "No such file"),
    ],
)
def test_mistakes_are_named(args, problem):
    out = run(1, "pretrain.py", *args, "--hidden", 8, "--layers", 1, "--heads", 1, ok=False)
    assert problem in out and "Traceback" not in out


def test_parameters_of_hugging_face_are_imported(tmp_path):
    random = np.random.RandomState(2)
    width, words = 8, 50257
    shapes = {"wte.weight": (words, width), "wpe.weight": (1024, width)}
    shapes |= {f"ln_f.{kind}": (width,) for kind in ("weight", "bias")}
    for name, (inside, outside) in {
        "attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width),
        "mlp.c_fc": (width, 4 * width), "mlp.c_proj": (4 * width, width),
    }.items():  # fmt: skip
        shapes |= {f"h.0.{name}.weight": (inside, outside), f"h.0.{name}.bias": (outside,)}
    shapes |= {
        f"h.0.{ln}.{kind}": (width,) for ln in ("ln_1", "ln_2") for kind in ("weight", "bias")
    }
    state = {
        f"transformer.{name}": random.randn(*s).astype("float32") for name, s in shapes.items()
    }
    np.savez(tmp_path / "gpt2.npz", **state)
    folder, sizes = tmp_path / "ckpt", ["--hidden", width, "--layers", 1, "--heads", 2]
    run(1, "generate.py", "--checkpoints", folder, "--import-from", tmp_path / "gpt2.npz", *sizes)
    net, config = generate.load_network(str(folder))
    table = net.word_embed.weight.data().asnumpy()
    np.testing.assert_array_equal(table[:words], state["transformer.wte.weight"])
    assert (config.hidden, config.layers) == (width, 1)
