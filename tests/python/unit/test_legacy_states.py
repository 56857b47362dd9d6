"""Optimizer states that MXNet 1.9.1 pickled, and pickles that are made to do harm."""

from __future__ import annotations

import base64
import datetime
import decimal
import fractions
import gzip
import hashlib
import json
import pickle
import random
import struct
import tracemalloc
import uuid
from collections import Counter, OrderedDict, deque
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import optimizer as opt
from mxlite.base import FileFormatError, ShapeError
from mxlite.horovod.functions import ObjectError, _from_bytes, _to_bytes
from mxlite.ndarray.serialization import save_tobuffer
from mxlite.optimizer.legacy_states import read_legacy_states

DATA = Path(__file__).parents[2] / "data"
CASES = json.loads(gzip.decompress((DATA / "states_1.9.1.json.gz").read_bytes()).decode())


def plain(state: Any) -> Any:
    if isinstance(state, (tuple, list)):
        return [plain(part) for part in state]
    if isinstance(state, mx.nd.NDArray):
        values = state.asnumpy().astype("float64").ravel().tolist()
        return {"dtype": np.dtype(state.dtype).name, "stype": state.stype, "values": values}
    return state


def loaded(content: bytes) -> Any:
    updater = opt.get_updater(opt.create("sgd"))
    updater.set_states(content)
    return updater


@pytest.mark.parametrize("case", CASES, ids=[f"{c['name']}-{c['dtype']}" for c in CASES])
def test_the_states_of_every_optimizer_are_read(case: dict[str, Any]) -> None:
    assert case["states"]["3"] is not None or case["name"] in ("sgld", "test")
    for protocol, text in case["pickles"].items():
        updater = loaded(base64.b64decode(text))
        states = {str(index): plain(state) for index, state in updater.states.items()}
        assert states == case["states"], f"protocol {protocol}"
        assert updater.optimizer.num_update == case["num_update"]
        assert updater.optimizer.lr_scheduler.step == [3, 5]
        assert type(updater.optimizer.lr_scheduler.warmup_final_lr) is float
        assert type(updater.optimizer).__name__.lower() == case["name"]
        if case["name"] != "test":
            weight = mx.nd.ones((2, 2), dtype=case["dtype"])
            updater(3, mx.nd.ones((2, 2), dtype=case["dtype"]), weight)
            assert np.isfinite(weight.asnumpy()).all()


def test_damaged_pickles_raise_one_kind_of_error() -> None:
    numbers = random.Random(0)
    for case in CASES[:8]:
        for text in case["pickles"].values():
            content = base64.b64decode(text)
            with pytest.raises(FileFormatError, match=r"offset \d+"):
                loaded(content[: len(content) // 2])
            for _ in range(150):
                changed = bytearray(content)
                for _ in range(numbers.randint(1, 4)):
                    changed[numbers.randrange(len(changed))] = numbers.randrange(256)
                try:
                    loaded(bytes(changed))
                except FileFormatError as error:
                    assert "load" in str(error)


class Call:
    """Is pickled as a call, followed by a state."""

    def __init__(self, function: Any, *args: Any, state: Any = None) -> None:
        self.reduced = (function, args) if state is None else (function, args, state)

    def __reduce__(self) -> Any:
        return self.reduced


_SCALAR = np.float64(1).__reduce__()[0]


def forged_object_type() -> Any:
    """A type of objects whose state clears the flag that says so."""
    return Call(np.dtype, "O8", False, True, state=(3, "|", None, None, None, 8, 8, 0))


@pytest.mark.parametrize(
    "value",
    [
        forged_object_type(),
        Call(_SCALAR, forged_object_type(), b"\x10" * 8),
        Call(_SCALAR, np.dtype([("x", "O")]), b"\x10" * 8),
        Call(_SCALAR, np.dtype("f8"), b"\x10" * 4),
        Call(_SCALAR, np.dtype("V8"), b"\x10" * 8),
        Call(np.dtype, "f8", False, True, state=(3, "<", None, ("x",), {"x": (np.dtype("O"), 0)})),
        Call(bytearray, 2**31),
        Call(complex, "1" * 100),
        Call(set, [[1]]),
        Call(np.ndarray, (2**40,)),
        Call(eval, "1"),
        mx.nd.NDArray,
        lambda: None,
    ],
    ids=repr,
)
def test_forged_values_are_refused(value: Any) -> None:
    try:
        content = pickle.dumps({0: value})
    except (AttributeError, pickle.PicklingError):  # a function without a name
        content = b"cbuiltins\neval\n(S'1'\ntR."
    with pytest.raises(FileFormatError, match=r"offset \d+"):
        read_legacy_states(content, "a file")
    with pytest.raises(ObjectError, match=r"offset \d+"):
        _from_bytes(content)


def legacy_array(blob: bytes) -> bytes:
    """Opcodes of an array: class, (None,), call, {'handle': blob}, build."""
    head = b"cmxnet.ndarray.ndarray\nNDArray\n(NtR}U\x06handle"
    return head + b"B" + len(blob).to_bytes(4, "little") + blob + b"sb"


def array_state(values: Any, dtype: str = "float32") -> bytes:
    return legacy_array(save_tobuffer([mx.nd.array(values, dtype=dtype)])[24:-8])


def test_an_array_of_a_closed_list_of_types_is_read() -> None:
    (read,) = read_legacy_states(b"]" + array_state([[1, 2]], "float16") + b"a.", "a file")
    assert read.dtype == np.float16 and read.asnumpy().tolist() == [[1, 2]]
    wrong = save_tobuffer([read])[24:-11]
    with pytest.raises(FileFormatError, match="needs 4 bytes, 1 are left"):
        read_legacy_states(b"]" + legacy_array(wrong) + b"a.", "a file")


WRONG_SHAPE = r"state of parameter 1 must fit Parameter 'b' of shape \(2, 1\), got shape \(1, 2\)"
OTHER = "this trainer's 2 parameters, got a state of parameter {};"


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (b"K\x00", None, ""),
        (b"K\x01", ShapeError, WRONG_SHAPE),
        (b"K\x02", FileFormatError, OTHER.format(2)),
        (b"X\x01\x00\x00\x00b", FileFormatError, OTHER.format("b")),
        (b"\x88", FileFormatError, OTHER.format(True)),
        (b"N", FileFormatError, OTHER.format(None)),
    ],
)
def test_states_are_compared_with_the_parameters(
    tmp_path: Path, key: bytes, error: type[Exception] | None, words: str
) -> None:
    """1.x pickles states by position: a trainer of another network must not take them."""
    path = tmp_path / "states"
    path.write_bytes(b"(" + key + array_state([[1, 2]]) + b"d.")
    params = [mx.gluon.Parameter("a", shape=(1, 2)), mx.gluon.Parameter("b", shape=(2, 1))]
    for param in params:
        param.initialize()
    trainer = mx.gluon.Trainer(params, "sgd", {"momentum": 0.5})
    if error is None:
        trainer.load_states(path)
        assert trainer._updaters[0].states[0].asnumpy().tolist() == [[1, 2]]
        return
    with pytest.raises(error, match=words):
        trainer.load_states(path)
    assert trainer._updaters[0].states == {}


SMALL_ATTACKS = {
    "memo": b"Nr\xff\xff\xff\x7fr\xff\xff\xff\xff.",
    "text": b"X\xff\xff\xff\x7fab.",
    "bytes": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fab.",
    "frame": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
    "number": b"\x8b\xff\xff\xff\x7f.",
    "negative": b"\x8b\xff\xff\xff\xff.",
    "old text": b"T\xff\xff\xff\xff.",
    "digits": b"I" + b"9" * 100_000 + b"\n.",
    "empty": b"",
    "pop": b"0.",
    "stop": b".",
    "get": b"h\x07.",
    "name": b"\x8c\x02os\x8c\x06system\x93.",
    "name at the end": b"cbuiltins\nbytearray\n.",
    "extension": b"\x82\x01.",
    "persistent": b"Px\n.",
    "buffer": b"\x97.",
    "mark": b"((.",
    "inst": b"(ios\nsystem\n.",
    "itself": b"]q\x00h\x00a.",
    "itself in a dict": b"}q\x00K\x01h\x00s.",
    "unhashable": b"}]K\x01s.",
    "odd": b"(K\x01d.",
    "no state": b"cmxnet.optimizer.optimizer\nSGD\n)\x81K\x01b.",
}


@pytest.mark.parametrize("content", SMALL_ATTACKS.values(), ids=SMALL_ATTACKS)
def test_small_files_take_little_memory(content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError):
            loaded(content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20, peak


def test_values_that_multiply_are_refused() -> None:
    # Each tuple holds the one before twice: 2**60 entries, and as long to hash.
    doubled = b"K\x01" + b"2\x86" * 60
    with pytest.raises(FileFormatError, match="entries"):
        loaded(b"(K\x00" + doubled + b"d.")
    with pytest.raises(FileFormatError, match="parts"):
        loaded(b"(" + doubled + b"K\x00d.")
    deep = b"(K\x00" + b"]" * 500 + b"a" * 499 + b"d."
    with pytest.raises(FileFormatError, match="must be nested at most"):
        loaded(deep)
    text = b"X" + (1 << 20).to_bytes(4, "little") + b"x" * (1 << 20)
    encode = b"c_codecs\nencode\nq\x01" + text + b"q\x02\x8c\x06latin1q\x03\x86R0"
    again = b"h\x01h\x02h\x03\x86R0" * 1000
    with pytest.raises(FileFormatError, match="at most 8 times"):
        loaded(encode + again + b"N.")


@pytest.mark.parametrize(
    ("key", "value"),
    [("update", 1), ("__class__", 1), ("learning_rate", 1), ("lr", "fast"), (7, 1), ("a b", 1)],
)
def test_attributes_that_are_no_options_are_refused(key: Any, value: Any) -> None:
    class_name = b"cmxnet.optimizer.optimizer\nSGD\n)\x81"
    state = pickle.dumps({key: value}, protocol=2)[2:-1]
    with pytest.raises(FileFormatError, match="option|names"):
        loaded(b"}" + class_name + state + b"b\x86.")


@mx.optimizer.register
class OutsideAdam(mx.optimizer.Optimizer):
    """Stands for gluon-nlp's BERTAdam: a class of another package."""


def _outside(module: bytes, name: bytes) -> bytes:
    """Return states whose optimizer was made by a class of that module."""
    scale = array_state([0.25])
    attributes = b"}(Vlr\nG" + struct.pack(">d", 0.5) + b"Vrescale_grad\n" + scale + b"u"
    return b"}c" + module + b"\n" + name + b"\n)\x81" + attributes + b"b\x86."


def test_registered_optimizers_of_other_packages_are_read() -> None:
    updater = mx.optimizer.get_updater(OutsideAdam())
    updater.set_states(_outside(__name__.encode(), b"OutsideAdam"))
    assert type(updater.optimizer) is OutsideAdam
    assert updater.optimizer.lr == 0.5
    assert updater.optimizer.rescale_grad == 0.25  # gluon-nlp leaves an array here


@pytest.mark.parametrize("name", [b"legacy_array", b"OutsideSGD", b"OutsideAdam.create_state"])
def test_other_names_of_such_a_package_are_refused(name: bytes) -> None:
    updater = mx.optimizer.get_updater(OutsideAdam())
    with pytest.raises(FileFormatError, match=f"the name {__name__}.{name.decode()} is not all"):
        updater.set_states(_outside(__name__.encode(), name))


ZONE = datetime.timezone(datetime.timedelta(hours=2), "x")
VALUES = [
    [1, 2.5, None, True, -7, 2**70, complex(1, 2), range(3, 9, 2), slice(1, None)],
    ({1, 2}, frozenset([3, (4, 5)]), {(1, 2): 3}),
    (b"abc", bytearray(b"xyz"), "é"),
    [OrderedDict([(1, 2), ("a", [3])]), deque([1, [2]], 5), Counter("aab")],
    [datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4, fold=1), datetime.timezone.utc],
    [datetime.datetime(2024, 2, 29, 23, 59, 58, 999999, ZONE, fold=1)],
    [datetime.timedelta(-3, 4, 5), decimal.Decimal("-1.50"), fractions.Fraction(-3, 7)],
    [uuid.UUID(int=5), Path("/a/b")],
]


def test_objects_between_processes_keep_their_types() -> None:
    assert _from_bytes(_to_bytes("test", VALUES)) == VALUES
    arrays = [
        np.arange(6).reshape(2, 3).T,
        np.float32(3.5),
        np.array(["ab", "c"]),
        np.array([b"a"]),
        np.array(True),
        np.arange(3, dtype=">i4"),
        np.zeros((0, 3), "float16"),
        mx.nd.array([1, 2], dtype="int8"),
    ]
    everything = _from_bytes(_to_bytes("test", arrays))
    assert len(everything) == len(arrays)
    for sent, received in zip(arrays, everything):
        assert type(received) is type(sent) and received.dtype == sent.dtype
        assert received.shape == sent.shape
        left, right = (x.asnumpy() if isinstance(x, mx.nd.NDArray) else x for x in (sent, received))
        np.testing.assert_array_equal(left, right)
    shared = [1]
    first, second = _from_bytes(_to_bytes("test", [shared, shared]))
    assert first is second


@pytest.mark.parametrize("value", [np.array([{}]), np.zeros(1, [("a", "f4")]), Path])
def test_objects_that_need_code_are_not_sent(value: Any) -> None:
    with pytest.raises(mx.MXNetError, match="test"):
        _to_bytes("test", value)


def test_a_bool_array_holds_only_zeros_and_ones() -> None:
    content = pickle.dumps(np.array([True, False])).replace(b"\x01\x00\x94t", b"\x07\x00\x94t")
    assert b"\x07\x00\x94t" in content
    assert _from_bytes(content).view(np.uint8).tolist() == [1, 0]


def own_states(tree: bytes) -> bytes:
    """Bytes of mxlite's own format around a JSON tree, with a correct checksum."""
    blob = save_tobuffer([])
    body = (
        b"MXLSTATE" + struct.pack("<IQ", 1, len(tree)) + tree + struct.pack("<Q", len(blob)) + blob
    )
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    "tree",
    [
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"list": []}',
        b'{"dict": [["states", {"dict": [[0, "text"]]}], ["optimizer", null]]}',
        b'{"dict": [["states", 1], ["optimizer", null]]}',
    ],
)
def test_states_of_our_format_with_a_damaged_tree_are_refused(tree: bytes) -> None:
    with pytest.raises(FileFormatError, match="load_states"):
        loaded(own_states(tree))
