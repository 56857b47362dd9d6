"""Changes valid files at random and gives them to the loaders of the Python package.

    python tests/fuzz/loaders.py TARGET --seconds 20 --seed 1

prints one JSON line. A finding is an exception that the loader does not document, an input that
takes more than 10 s of CPU time or 60 s in all, or one that needs more memory than the limit; a
crash ends the process.
With --input FILE each input is in that file before it is read, so that a crash leaves it. Earlier
findings, in tests/fuzz/regressions/python_TARGET, are run first.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import ctypes
import functools
import gzip
import hashlib
import io
import json
import logging
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mxlite as mx
import numpy as np
from mxlite import _core
from mxlite import optimizer as opt
from mxlite._files.packed import read_idx
from mxlite._files.torch_files import read_torch
from mxlite.base import _LIB, MXNetError, check_call, mx_uint
from mxlite.checkpoint.format import read_file, write_file
from mxlite.horovod.functions import _from_bytes, _to_bytes

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append(str(Path(__file__).resolve().parent.parent / "python" / "unit"))
import tool_files
from crafted import CRAFTED, json_table
from crafted import params as crafted_params
from loaders_list import LOADERS
from mutation import mutated, mutated_json, mutated_lines, mutated_pickle
from seeds import png
from torch_files import old_file, state_dict, zip_file

_DATA = Path(__file__).resolve().parent.parent / "data"
_LONGEST = 10
_LONGEST_WAIT = 60
_MOST_MEMORY = 4 << 30
Load = Callable[[bytes, Path], Any]


class TookTooLongError(BaseException):
    """Raised by the alarm; loaders cannot catch it as an Exception."""


# -- loaders: each gets bytes, and a path that it may use ------------------------------------------


def _buffer(data: bytes, path: Path) -> None:
    mx.nd.load_frombuffer(data)


def _file(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    mx.nd.load(str(path))


def _states(data: bytes, path: Path) -> None:
    opt.get_updater(opt.create("sgd")).set_states(data)


def _own_states(data: bytes, path: Path) -> None:
    body = data[:-32]
    _states(body + hashlib.sha256(body).digest(), path)


def _checkpoint(data: bytes, path: Path) -> None:
    """Repair the length and the checksums, so that damage of the table reaches the reader."""
    offset = int.from_bytes(data[-32:-24], "little")
    if len(data) > 100 and offset + 32 < len(data):
        table = data[offset:-32]
        head = struct.pack("<QQI", offset, len(table), _core.crc32c(table))
        data = data[:-32] + head + struct.pack("<I", _core.crc32c(head)) + data[-8:]
    path.write_bytes(data)
    read_file(str(path))


def _torch(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    read_torch(str(path))


def _idx(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    read_idx(str(path), 3, "fuzz")


def _index(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    (path.parent / "records.rec").write_bytes(b"")
    mx.recordio.MXIndexedRecordIO(str(path), str(path.parent / "records.rec"), "r").close()


def _records(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    reader = mx.recordio.MXRecordIO(str(path), "r")
    while (record := reader.read()) is not None:
        mx.recordio.unpack(record)


def _image(data: bytes, path: Path) -> None:
    mx.image.imdecode(data)


def _embedding(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    mx.contrib.text.embedding.CustomEmbedding(str(path))


@functools.cache
def _saved_net(folder: str) -> tuple[mx.gluon.Block, str]:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(2, in_units=2), mx.gluon.nn.BatchNorm(in_channels=2))
    net.initialize()
    net.save(f"{folder}/net")
    return net, f"{folder}/net"


def _model(data: bytes, path: Path) -> None:
    net, prefix = _saved_net(str(path.parent))
    Path(prefix + "-model.json").write_bytes(data)
    net.load(prefix)


def _symbol(data: bytes, path: Path) -> None:
    """Read a symbol, infer what can be inferred, and write what was read."""
    path.write_bytes(data)
    symbol = mx.sym.load(str(path))
    text = symbol.tojson()
    mx.sym.load_json(text)
    symbol.infer_type_partial()
    try:
        symbol.infer_shape_partial()
        if symbol.list_arguments():
            with contextlib.suppress(mx.base.ShapeError):  # the network may need another shape
                symbol.infer_shape_partial((2, 3, 8, 8))
    except MemoryError as error:
        if "smaller than 2^63 bytes" not in str(error):  # raised before any is allocated
            raise


def _predictor(data: bytes, path: Path) -> None:
    """Create a predictor by the C interface and run it; data are a length, a symbol, parameters."""
    length = int.from_bytes(data[:4], "little")
    symbol, params = data[4 : 4 + length].replace(b"\0", b" "), data[4 + length :]
    handle = ctypes.c_void_p()
    arguments = (1, 0, 1, (ctypes.c_char_p * 1)(b"data"), (mx_uint * 2)(0, 2), (mx_uint * 2)(2, 5))
    check_call(_LIB.MXPredCreate(symbol, params, len(params), *arguments, ctypes.byref(handle)))
    values = (ctypes.c_float * 10)()
    try:
        check_call(_LIB.MXPredSetInput(handle, b"data", values, 10))
        check_call(_LIB.MXPredForward(handle))
        check_call(_LIB.MXPredGetOutput(handle, 0, values, 6))
    finally:
        check_call(_LIB.MXPredFree(handle))


# -- valid inputs ----------------------------------------------------------------------------------


def _pickled() -> list[bytes]:
    cases = json.loads(gzip.decompress((_DATA / "states_1.9.1.json.gz").read_bytes()))
    return [base64.b64decode(text) for case in cases for text in case["pickles"].values()]


def _npz(**arrays: Any) -> list[bytes]:
    results = []
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, **arrays)
        results.append(stream.getvalue())
    return results


def _written(write: Callable[[str], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(str(path))
        return path.read_bytes()


def _stepped() -> bytes:
    updater = opt.get_updater(opt.create("adam", lr_scheduler=mx.lr_scheduler.FactorScheduler(5)))
    updater(0, mx.nd.ones((2, 2)), mx.nd.ones((2, 2)))
    content: bytes = updater.get_states(dump_optimizer=True)
    return content


def _records_seed(path: str) -> None:
    writer = mx.recordio.MXRecordIO(path, "w")
    for label in (1.0, [1.0, 2.0, 3.0]):
        writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, label, 1, 0), b"content"))
    writer.close()


def _graphs() -> list[bytes]:
    """Return symbols of one operator each, whose parameters decide shapes."""
    sym, x = mx.sym, mx.sym.var("data")
    heads = [
        sym.Convolution(x, kernel=(3, 3), num_filter=4, stride=(1, 1), pad=(1, 1), num_group=1),
        sym.Deconvolution(x, kernel=(3, 3), num_filter=4, stride=(2, 2), adj=(1, 1)),
        sym.Pooling(x, kernel=(2, 2), stride=(1, 1), pool_type="max"),
        sym.FullyConnected(x, num_hidden=5), sym.Embedding(x, input_dim=5, output_dim=2),
        sym.Reshape(x, shape=(2, -1, 0)), sym.slice(x, begin=(0, 0), end=(1, 2), step=(1, 1)),
        sym.slice_axis(x, axis=1, begin=0, end=2), sym.tile(x, reps=(2, 1)),
        sym.repeat(x, repeats=2, axis=0), sym.transpose(x, axes=(0, 2, 3, 1)),
        sym.Pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)),
        sym.UpSampling(x, scale=2, sample_type="nearest"), sym.topk(x, k=2, axis=1),
        sym.one_hot(x, depth=3), sym.expand_dims(x, axis=1), sym.split(x, num_outputs=3, axis=1),
        sym.space_to_depth(x, block_size=2), sym.broadcast_to(sym.sum(x), shape=(3, 4)),
        sym.concat(x, x, dim=1), sym.stack(x, x, axis=2), sym.zeros(shape=(2, 3)),
        sym.arange(start=0, stop=5, step=1), sym.linspace(0, 5, 3), sym.sum(x, axis=(1, 2)),
        sym.RNN(sym.Reshape(x, shape=(2, 3, 64)), state_size=4, num_layers=2, mode="lstm"),
        sym.contrib.BilinearResize2D(x, height=4, width=4), sym.im2col(x, kernel=(2, 2)),
        sym.ROIPooling(x, sym.var("rois"), pooled_size=(2, 2), spatial_scale=1),
        sym.Correlation(x, x, kernel_size=1, max_displacement=1, stride1=1, stride2=1),
        sym.contrib.MultiBoxPrior(x, sizes=(0.5, 0.2), ratios=(1, 2)),
    ]  # fmt: skip
    return [head.tojson().encode() for head in heads]


def _safetensors_header(data: bytes, numbers: random.Random) -> bytes:
    """Change the JSON header of a safetensors file; its length fits again."""
    length = int.from_bytes(data[:8], "little")
    text = mutated_json(data[8 : 8 + length], numbers)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _torch_pickle(data: bytes, numbers: random.Random) -> bytes:
    """Change the pickle in a file of torch.save, or the old format's pickles."""
    if data[:2] != b"PK":
        return mutated_pickle(data, numbers)
    stream = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
            for name in old.namelist():
                part = old.read(name)
                new.writestr(name, mutated_pickle(part, numbers) if "pkl" in name else part)
    except Exception:  # an input of the corpus that is damaged already
        return mutated(data, numbers)
    return stream.getvalue()


def _predictor_parts(data: bytes, numbers: random.Random) -> bytes:
    """Change the symbol or the parameters; the length fits again."""
    length = int.from_bytes(data[:4], "little")
    symbol, params = data[4 : 4 + length], data[4 + length :]
    if numbers.randrange(2):
        symbol = mutated_json(symbol, numbers)
    else:
        params = mutated(params, numbers)
    return struct.pack("<I", len(symbol)) + symbol + params


class _Target(NamedTuple):
    """A loader, valid inputs, and how they are changed beside changes of bytes."""

    load: Load
    seeds: list[bytes]
    change: Callable[[bytes, random.Random], bytes] | None = None


def _states_text(data: bytes, numbers: random.Random) -> bytes:
    """Change the JSON tree or the arrays of our own states; the lengths fit again."""
    length = int.from_bytes(data[12:20], "little")
    text, blob = data[20 : 20 + length], data[28 + length : -32]
    if not text or not blob or numbers.randrange(4) == 0:
        return mutated(data, numbers)
    if numbers.randrange(3):
        text = mutated_json(text, numbers)
    else:
        blob = crafted_params(numbers)
    sizes = [struct.pack("<Q", len(part)) for part in (text, blob)]
    return data[:12] + sizes[0] + text + sizes[1] + blob + bytes(32)


def _checkpoint_table(data: bytes, numbers: random.Random) -> bytes:
    """Change the table of a checkpoint, or replace it by one with a crafted array."""
    offset = int.from_bytes(data[-32:-24], "little")
    if not 64 <= offset < len(data) - 32:
        return mutated(data, numbers)
    if numbers.randrange(2):
        return data[:offset] + mutated_json(data[offset:-32], numbers) + data[-32:]
    table = json.loads(json_table(numbers))
    entry = table["arrays"][0]
    size = entry["bytes"] if entry["bytes"] < 4096 else 64
    entry["crc32c"] = _core.crc32c(bytes(size))
    content = data[:64] + bytes(size + -size % 64)
    end = struct.pack("<Q", len(content)) + data[-24:]
    return content + json.dumps(table).encode() + end


def _targets() -> dict[str, _Target]:
    files = [path.read_bytes() for path in sorted((_DATA / "mxnet_1_9_1").glob("*.params"))]
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False]), "c": np.int64(3)}
    weights = {"w": np.ones((2, 3), "float32"), "n": np.array([1, 2])}
    tensors = {"a": mx.nd.ones((2, 3)), "b": mx.nd.ones((0, 2), dtype="int8")}
    tensors["c"] = tensors["a"]
    tree = {"a": mx.nd.ones((2, 2)), "b": [1, "text", (None, 2.5)], "c": np.arange(3)}
    idx = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4) + bytes(24)
    plain = {"a": [1, 2.5, "x", b"y", (None, True)], "n": np.arange(4), "s": {1, 2}}
    with tempfile.TemporaryDirectory() as folder:
        described = Path(_saved_net(folder)[1] + "-model.json").read_bytes()
    jpeg = (_DATA / "gradient.jpg").read_bytes()
    paths = sorted(_DATA.rglob("*-symbol.json"))
    # mx.sym.load refuses fused int8 layers of 1.9.1, which quantization.load_quantized reads.
    symbols = [path.read_bytes() for path in paths if path.name != "quantized-symbol.json"]
    net, weights_of_net = (
        (_DATA / "mxnet_1_9_1" / f"classifier-{name}").read_bytes()
        for name in ("symbol.json", "0001.params")
    )
    return {
        "params_file": _Target(_file, files),
        "npz": _Target(_buffer, _npz(**arrays)),
        "safetensors": _Target(
            _buffer,
            [_written(lambda path: mx.nd.save(path, tensors, format="safetensors"))],
            _safetensors_header,
        ),
        "states": _Target(_states, _pickled(), mutated_pickle),
        "own_states": _Target(_own_states, [_stepped()], _states_text),
        "objects": _Target(
            lambda data, path: _from_bytes(data), [_to_bytes("fuzz", plain)], mutated_pickle
        ),
        "checkpoint": _Target(
            _checkpoint, [_written(lambda path: write_file(path, tree))], _checkpoint_table
        ),
        "idx": _Target(_idx, [idx, gzip.compress(idx, mtime=0)]),
        "index": _Target(_index, [b"0\t0\n1\t44\n2\t104\n"], mutated_lines),
        "records": _Target(_records, [_written(_records_seed)]),
        "image": _Target(_image, [jpeg, png(9, 5, 2), png(9, 5, 6)]),
        "embedding": _Target(_embedding, [b"a 0.1 0.2 0.3\nb 1 2 3\nc 4 5 6\n"], mutated_lines),
        "model": _Target(_model, [described], mutated_json),
        "symbol": _Target(_symbol, symbols + _graphs(), mutated_json),
        "predictor": _Target(
            _predictor, [struct.pack("<I", len(net)) + net + weights_of_net], _predictor_parts
        ),
        "torch": _Target(
            _torch,
            [zip_file(state_dict(weights)), old_file(state_dict(weights))],
            _torch_pickle,
        ),
        "tools": _Target(tool_files.read, tool_files.SEEDS, tool_files.change),
    }


def _next_input(name: str, target: _Target, corpus: list[bytes], numbers: random.Random) -> bytes:
    """Return an input: made whole, or one of the corpus with changes of its parts or bytes."""
    kind = numbers.randrange(3)
    if kind == 0 and name in CRAFTED:
        return CRAFTED[name](numbers)
    if kind == 1 and target.change is not None:
        return target.change(numbers.choice(corpus), numbers)
    return mutated(numbers.choice(corpus), numbers)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise TookTooLongError

    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, ring)
    signal.alarm(_LONGEST_WAIT)
    signal.setitimer(signal.ITIMER_PROF, _LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


class _Lines:
    """The lines of the package that ran while the object was entered."""

    def __init__(self) -> None:
        self.ran: set[tuple[str, int]] = set()

    def __enter__(self) -> _Lines:
        sys.settrace(self._call)
        return self

    def __exit__(self, *args: object) -> None:
        sys.settrace(None)

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        return self._line if "mxlite" in frame.f_code.co_filename else None

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.ran.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if "mxlite" in f.filename), frames[-1])
    return f"{type(error).__name__} at {os.path.basename(frame.filename)}:{frame.lineno}"


def _regressions(name: str) -> list[bytes]:
    folder = Path(__file__).parent / "regressions" / f"python_{name}"
    return [path.read_bytes() for path in sorted(folder.glob("*"))]


def main() -> None:
    """Fuzz one target and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=LOADERS)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", type=Path, help="file that has the input while it is read")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    target = _targets()[options.target]
    os.environ.setdefault("MXLITE_MAX_IMAGE_PIXELS", "4000000")
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + _MOST_MEMORY,) * 2)
    numbers = random.Random(options.seed)
    covered: set[tuple[str, int]] = set()
    findings: dict[str, str] = {}
    count = 0
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        for seed in target.seeds:
            target.load(seed, path)
        corpus = list(target.seeds)
        known = _regressions(options.target)
        while known or time.monotonic() < end:
            data = known.pop() if known else _next_input(options.target, target, corpus, numbers)
            count += 1
            if options.input:
                options.input.write_bytes(data)
            error: BaseException | None = None
            with _alarm(), _Lines() as lines:
                try:
                    target.load(data, path)
                except (Exception, TookTooLongError) as raised:
                    error = raised
            if not lines.ran <= covered:
                covered |= lines.ran
                corpus.append(data)  # An input that reaches another line is changed further.
            # MemoryError is not a documented error for a small file.
            if error is not None and (
                not isinstance(error, MXNetError) or isinstance(error, MemoryError)
            ):
                place = _place(error)
                if place not in findings:
                    text = f"{str(error)[:200]}: {base64.b64encode(data).decode()}"
                    findings[place] = text
    if options.input:
        options.input.unlink(missing_ok=True)
    print(json.dumps({"target": options.target, "inputs": count, "coverage": len(covered),
                      "findings": findings}))  # fmt: skip
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
