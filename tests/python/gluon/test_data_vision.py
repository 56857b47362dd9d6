"""Image data sets and transforms."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import struct
import tarfile
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.gluon import data
from mxlite.gluon.data import vision
from mxlite.gluon.data.vision import transforms
from numpy.testing import assert_allclose, assert_array_equal, assert_raises_regex
from record_files import write_records

IMAGES = np.random.RandomState(1).randint(0, 256, (6, 28, 28)).astype(np.uint8)
LABELS = np.arange(6, dtype=np.uint8)


def idx(values: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.tobytes()


def write_mnist(folder: Path) -> None:
    for kind, take in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        (folder / f"{kind}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES[take])))
        (folder / f"{kind}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS[take])))


@pytest.mark.parametrize("kind", [vision.MNIST, vision.FashionMNIST])
def test_mnist_is_read_from_its_files(kind: Any, tmp_path: Path) -> None:
    write_mnist(tmp_path)
    train, test = kind(str(tmp_path)), kind(str(tmp_path), train=False)
    assert (len(train), len(test)) == (4, 2)
    image, label = test[1]
    assert image.dtype == np.uint8
    assert_array_equal(image.asnumpy()[..., 0], IMAGES[5])
    assert label == 5
    assert label.dtype == np.int32
    changed = kind(str(tmp_path), transform=lambda x, y: (x.astype("float32") / 255, y + 1))
    assert_allclose(changed[0][0].asnumpy()[..., 0], IMAGES[0] / 255, rtol=1e-6)
    assert changed[0][1] == 1


def test_unpacked_mnist_files_do_as_well(tmp_path: Path) -> None:
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(LABELS))
    assert len(vision.MNIST(str(tmp_path), train=False)) == 6


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"train-labels-idx1-ubyte\.gz.*nothing is down"):
        vision.MNIST(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"data_batch_1\.bin.*cifar-10-binary\.tar\.gz"):
        vision.CIFAR10(str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match=r"train\.bin.*cifar-100-binary\.tar\.gz"):
        vision.CIFAR100(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no folder"):
        vision.ImageFolderDataset(str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match=r"a\.rec"):
        vision.ImageRecordDataset(str(tmp_path / "a.rec"))


def test_a_folder_without_images_is_said(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    with pytest.warns(UserWarning, match="there are no images in .* a folder for each") as said:
        assert len(vision.ImageFolderDataset(str(tmp_path))) == 0
    assert said[0].filename == __file__
    with mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w"):
        pass
    for kind in (vision.ImageRecordDataset, data.RecordFileDataset):
        with pytest.warns(UserWarning, match="a.idx' names no records"):
            assert len(kind(str(tmp_path / "a.rec"))) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no gzip", "gzip file is damaged"),
        (gzip.compress(idx(IMAGES))[:-900], "gzip file is damaged"),
        (gzip.compress(idx(IMAGES)[:-5]), "truncated"),
        (gzip.compress(idx(LABELS)), "000008"),
        (gzip.compress(idx(IMAGES)), "got 4 labels and 6 images"),
    ],
)
def test_damaged_mnist_files_are_named(content: bytes, words: str, tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(ValueError, match=words) as error:
        vision.MNIST(str(tmp_path))
    assert str(tmp_path) in str(error.value)


def cifar_rows(count: int, labels: int) -> np.ndarray:
    return np.random.RandomState(count).randint(0, 256, (count, labels + 3072)).astype(np.uint8)


def test_cifar_is_read_from_files_or_from_its_archive(tmp_path: Path) -> None:
    rows = cifar_rows(10, 1)
    files = {f"data_batch_{i + 1}.bin": rows[2 * i : 2 * i + 2].tobytes() for i in range(5)}
    files["test_batch.bin"] = rows[:3].tobytes()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    archived = tmp_path / "archived"
    archived.mkdir()
    with tarfile.open(archived / "cifar-10-binary.tar.gz", "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    for root in (tmp_path, archived):
        train = vision.CIFAR10(str(root))
        assert len(train) == 10
        image, label = train[7]
        expected = rows[7, 1:].reshape(3, 32, 32).transpose(1, 2, 0)
        assert_array_equal(image.asnumpy(), expected)
        assert label == rows[7, 0]
        assert len(vision.CIFAR10(str(root), train=False)) == 3


def test_damage_of_an_archive_is_a_file_error(tmp_path: Path) -> None:
    """A chain of long names makes tarfile call itself once for each."""
    part = tarfile.TarInfo("././@LongLink")
    part.type, part.size = tarfile.GNUTYPE_LONGNAME, 1
    header = part.tobuf(tarfile.GNU_FORMAT) + bytes(512)
    archive = tmp_path / "cifar-10-binary.tar.gz"
    for content in (header * 3000, header[:700], b"x" * 2000):
        archive.write_bytes(gzip.compress(content))
        words = "cifar-10-binary.tar.gz' (is a damaged|has no)"
        with pytest.raises(mx.base.FileFormatError, match=words):
            vision.CIFAR10(root=str(tmp_path))


@pytest.mark.parametrize("fine", [False, True])
def test_cifar100_has_two_kinds_of_labels(fine: bool, tmp_path: Path) -> None:
    rows = cifar_rows(3, 2)
    (tmp_path / "train.bin").write_bytes(rows.tobytes())
    images = vision.CIFAR100(str(tmp_path), fine_label=fine)
    assert [label for _, label in images] == rows[:, int(fine)].tolist()
    (tmp_path / "train.bin").write_bytes(rows.tobytes()[:-1])
    assert_raises_regex(ValueError, r"train\.bin.*truncated", vision.CIFAR100, str(tmp_path))


def picture_files(folder: Path) -> np.ndarray:
    Image = pytest.importorskip("PIL.Image")  # noqa: N806
    pixels = np.random.RandomState(3).randint(0, 256, (4, 9, 8, 3)).astype(np.uint8)
    for number, name in enumerate(["cat/b.png", "cat/a.PNG", "ape/x.png", "ape/y.png"]):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels[number]).save(path)
    return pixels


def test_folders_are_classes_in_alphabetical_order(tmp_path: Path) -> None:
    pixels = picture_files(tmp_path)
    (tmp_path / "readme.txt").write_text("no folder")
    (tmp_path / "ape" / "notes.txt").write_text("no image")
    with pytest.warns(UserWarning, match=r"readme\.txt|notes\.txt"):
        images = vision.ImageFolderDataset(str(tmp_path))
    assert images.synsets == ["ape", "cat"]
    assert [label for _, label in images.items] == [0, 0, 1, 1]
    assert_array_equal(images[2][0].asnumpy(), pixels[1])
    loader = data.DataLoader(images.transform_first(transforms.ToTensor()), 2, num_workers=2)
    batches = list(loader)
    assert [batch[1].asnumpy().tolist() for batch in batches] == [[0, 0], [1, 1]]
    assert_allclose(batches[0][0][1].asnumpy(), pixels[3].transpose(2, 0, 1) / 255, rtol=1e-6)


def test_a_list_gives_files_and_labels(tmp_path: Path) -> None:
    pixels = picture_files(tmp_path)
    rows = [(3, "cat/b.png"), (1.5, 2, "ape/x.png"), ([4, 5], "ape/y.png")]
    images = vision.ImageListDataset(str(tmp_path), rows)
    assert images[0][1] == 3
    assert images[1][1].tolist() == [1.5, 2]
    assert images[2][1].tolist() == [4, 5]
    assert_array_equal(images[1][0].asnumpy(), pixels[2])
    listed = tmp_path / "files.lst"
    listed.write_text("0\t3\tcat/b.png\n\n1\t1.5\t2\tape/x.png\n")
    images = vision.ImageListDataset(str(tmp_path), str(listed))
    assert images[1][1].tolist() == [1.5, 2]
    listed.write_text("0\t3\tcat/b.png\n1 ape\n")
    assert_raises_regex(ValueError, "line 2", vision.ImageListDataset, str(tmp_path), str(listed))
    assert_raises_regex(
        TypeError, "entries of imglist must be .*got 7", vision.ImageListDataset, str(tmp_path), [7]
    )


PICTURE = nd.array(np.random.RandomState(5).randint(0, 256, (12, 10, 3)), dtype="uint8")


@pytest.mark.parametrize("name", ["RandomBrightness", "RandomContrast", "RandomSaturation"])
def test_factors_stay_in_their_range(name: str) -> None:
    transform = getattr(transforms, name)(0.5)
    mx.random.seed(1)
    flat = nd.full((4, 4, 3), 64, dtype="float32")
    flat[:2] = 128
    spreads = []
    for _ in range(200):
        out = transform(flat).asnumpy()
        assert np.ptp(out, axis=2).max() < 1e-3  # gray stays gray
        spreads.append((out[0, 0, 0] - out[3, 0, 0]) / 64)
    if name == "RandomSaturation":
        assert_allclose(spreads, 1, rtol=1e-4)
    else:
        assert 0.5 - 1e-4 <= min(spreads) < 0.6
        assert 1.4 < max(spreads) <= 1.5 + 1e-4


@pytest.mark.parametrize(
    "transform",
    [
        transforms.RandomHue(0.3),
        transforms.RandomColorJitter(0.2, 0.2, 0.2, 0.2),
        transforms.RandomLighting(20.0),
        transforms.RandomFlipLeftRight(),
        transforms.RandomFlipTopBottom(),
        transforms.RandomGray(0.5),
        transforms.HybridRandomApply(transforms.RandomBrightness(0.9)),
        transforms.RandomApply(transforms.RandomBrightness(0.9)),
        transforms.RandomApply(
            [transforms.RandomBrightness(0.9), transforms.RandomFlipLeftRight()]
        ),
        transforms.RandomCrop((10, 12), pad=3),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_chance_changes_some_images_and_keeps_their_kind(transform: Any) -> None:
    mx.random.seed(2)
    random.seed(2)
    picture = PICTURE.astype("float32")
    results = [transform(picture) for _ in range(12)]
    assert {out.shape for out in results} == {(12, 10, 3)}
    assert {out.dtype for out in results} == {np.float32}
    assert len({out.asnumpy().tobytes() for out in results}) > 1


@pytest.mark.parametrize("p", [0, 1])
@pytest.mark.parametrize("kind", [transforms.RandomApply, transforms.HybridRandomApply])
def test_certain_chances(kind: Any, p: int) -> None:
    out = kind(transforms.Cast("float32"), p)(PICTURE.astype("float32") + 1)
    inner = kind(mx.gluon.nn.HybridLambda(lambda F, x: x * 2), p)
    assert_array_equal(inner(out).asnumpy(), out.asnumpy() * (1 + p))
    assert_raises_regex(
        ValueError, r"probability must be 0 to 1, got 1\.5", kind, transforms.Cast(), 1.5
    )


def test_gray_has_three_equal_channels() -> None:
    out = transforms.RandomGray(1.0)(PICTURE)
    assert out.dtype == np.uint8
    expected = (PICTURE.asnumpy() * [0.21, 0.72, 0.07]).sum(2)
    assert np.abs(out.asnumpy() - expected[..., None]).max() <= 1


def test_composed_transforms_can_be_hybridized() -> None:
    steps = [transforms.ToTensor(), transforms.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])]
    plain = transforms.Compose(steps)
    expected = plain(PICTURE).asnumpy()
    assert_allclose(transforms.HybridCompose(steps)(PICTURE).asnumpy(), expected, 1e-6)
    with pytest.warns(UserWarning, match="HybridSequential"):
        plain.hybridize()
    assert_allclose(plain(PICTURE).asnumpy(), expected, 1e-6)
    assert len(steps) == 2


def test_wrong_arguments_say_what_they_want() -> None:
    with pytest.raises(TypeError, match="data must be float32, got uint8"):
        transforms.Rotate(10)(PICTURE)
    with pytest.raises(TypeError, match="float32"):
        transforms.RandomRotation((-1, 1))(PICTURE)
    assert_raises_regex(ValueError, "ordered", transforms.RandomRotation, (1, -1))
    with pytest.raises(ValueError, match="between 0 and 1"):
        transforms.RandomRotation((-1, 1), rotate_with_proba=2)
    assert_raises_regex(ValueError, "-1", transforms.RandomHue, -1)
    assert_raises_regex(ValueError, "width, height", transforms.CenterCrop, (1, 2, 3))


def gray_records(folder: Path, count: int) -> str:
    return write_records(folder, [np.full((8, 9, 3), 10 * i, np.uint8) for i in range(count)])


@pytest.mark.parametrize("options", [{}, {"num_workers": 3}, {"num_workers": 3, "thread_pool": 1}])
def test_records_are_read_by_any_number_of_workers(options: Any, tmp_path: Path) -> None:
    images = vision.ImageRecordDataset(gray_records(tmp_path, 12))
    assert images[3][0].shape == (8, 9, 3)
    chosen = images.transform_first(lambda image: image.astype("int32").asnumpy().mean())
    for _ in range(2):
        seen = [batch for batch in data.DataLoader(chosen, 5, **options)]
        labels = np.concatenate([label.asnumpy() for _, label in seen])
        assert_array_equal(labels, np.arange(12))
        means = np.concatenate([mean.asnumpy() for mean, _ in seen])
        assert_allclose(means, 10 * np.arange(12), atol=1)


def test_a_record_data_set_needs_its_index_and_can_be_pickled(tmp_path: Path) -> None:
    path = gray_records(tmp_path, 3)
    copy = pickle.loads(pickle.dumps(data.RecordFileDataset(path)))
    assert len(copy) == 3
    assert mx.recordio.unpack(copy[2])[0].label == 2
    gray = vision.ImageRecordDataset(path, flag=0, transform=lambda image, label: image.shape)
    assert gray[1] == (8, 9, 1)
    (tmp_path / "a.idx").unlink()
    assert_raises_regex(FileNotFoundError, r"a\.idx", data.RecordFileDataset, path)
