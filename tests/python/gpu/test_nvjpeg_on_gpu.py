"""ImageRecordIter with MXLITE_NVJPEG=1 against the CPU's decoder.

On the stand-in, nvJPEG is libjpeg-turbo: samples are equal. On a GPU they differ by the rounding of
the decoders.
"""

from __future__ import annotations

import ctypes
import glob
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import recordio
from mxlite.base import DeviceError, NotSupportedError, RecordError, ValueError_

SIMULATED = "MXLITE_CUDA_LIBRARY" in os.environ
SIZES = ((60, 80), (97, 53), (48, 48), (130, 111), (96, 96), (50, 200))  # height, width
COUNT = len(SIZES)


def picture(height: int, width: int, seed: int) -> Any:
    """Return smooth colors, which decoders and scalings agree about."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / (7.0 + c) + seed) + np.cos(y / (9.0 - c)) for c in range(3)]
    return (np.stack(waves, -1) * 60 + 128).astype(np.uint8)


def jpeg(image: Any) -> bytes:
    packed = recordio.pack_img((0, 0.0, 0, 0), image, quality=95, img_fmt=".jpg")
    return bytes(recordio.unpack(packed)[1])


def write(path: Path, images: list[bytes]) -> str:
    with recordio.MXRecordIO(str(path), "w") as file:
        for i, image in enumerate(images):
            file.write(recordio.pack((0, float(i), i, 0), image))
    return str(path)


@pytest.fixture()
def record(tmp_path: Path) -> str:
    images = [jpeg(picture(h, w, i)) for i, (h, w) in enumerate(SIZES)]
    return write(tmp_path / "a.rec", images)


@pytest.fixture(autouse=True)
def nvjpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXLITE_NVJPEG", "1")


def make(rec: str, ctx: Any, cls: Any = None, **kwargs: Any) -> mx.io.ImageRecordIter:
    options = {"data_shape": (3, 40, 44), "batch_size": 2, "verbose": 0, **kwargs}
    iterator: mx.io.ImageRecordIter = (cls or mx.io.ImageRecordIter)(
        path_imgrec=rec, ctx=ctx, **options
    )
    return iterator


def all_batches(batches: mx.io.ImageRecordIter) -> list[tuple[Any, Any, Any, int | None]]:
    return [
        (b.data[0].asnumpy(), b.label[0].asnumpy(), b.index, b.pad)  # type: ignore[union-attr]
        for b in batches
    ]


def check_equal(rec: str, exact: bool = True, cls: Any = None, **kwargs: Any) -> None:
    on_gpu, on_cpu = make(rec, mx.gpu(0), cls, **kwargs), make(rec, "cpu", cls, **kwargs)
    for _ in range(2):  # epochs
        found, expected = all_batches(on_gpu), all_batches(on_cpu)
        assert len(found) == len(expected) > 0
        for (data, label, index, pad), (data2, label2, index2, pad2) in zip(found, expected):
            np.testing.assert_array_equal(label, label2)
            np.testing.assert_array_equal(index, index2)
            assert pad == pad2 and data.dtype == data2.dtype
            if exact and SIMULATED:
                np.testing.assert_array_equal(data, data2)
            else:  # rounding of decoders; blocks that are averaged instead of decoded smaller
                difference = np.abs(data.astype(np.float64) - data2.astype(np.float64))
                assert difference.max() <= 8 and difference.mean() <= 1
        on_gpu.reset()
        on_cpu.reset()
    assert on_gpu.decoded_on_cpu == 0


def test_batches_are_arrays_of_the_gpu(record: str) -> None:
    batch = make(record, "gpu").next()
    assert batch.data[0].ctx == mx.gpu(0)
    assert batch.label[0].ctx == mx.cpu()
    second = make(record, "gpu", device_id=mx.num_gpus() - 1).next()
    assert second.data[0].ctx == mx.gpu(mx.num_gpus() - 1)
    assert make(record, "cpu").next().data[0].ctx == mx.cpu()
    assert make(record, mx.cpu()).next().data[0].ctx == mx.cpu()
    np.testing.assert_array_equal(
        (batch.data[0] + 1).asnumpy(), second.data[0].asnumpy() + np.float32(1)
    )


def test_without_the_variable_the_cpu_decodes(record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXLITE_NVJPEG", "0")
    assert make(record, mx.gpu(0)).next().data[0].ctx == mx.cpu()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"data_shape": (3, 48, 48), "batch_size": 4},  # the last batch is filled
        {"batch_size": 4, "round_batch": 0},
        {"rand_crop": 1, "rand_mirror": 1, "shuffle": 1, "seed": 3},
        {"mirror": 1, "mean_r": 10, "mean_g": 20, "mean_b": 30, "std_r": 2, "std_b": 5},
        {"scale": 0.25, "max_random_contrast": 0.3, "rand_mirror": 1},
        {
            "random_resized_crop": 1,
            "max_random_area": 0.45,
            "min_random_area": 0.2,
            "max_aspect_ratio": 0.25,
        },
        {"min_crop_size": 20, "max_crop_size": 45, "rand_crop": 1, "seed": 7},
        {"resize": 60, "rand_crop": 1},
        {"data_shape": (3, 70, 90)},  # some images are enlarged
        {"data_shape": (1, 40, 40), "rand_crop": 1},
        {"preprocess_threads": 1, "prefetch_buffer": 1},
    ],
    ids=str,
)
def test_samples_equal_those_of_the_cpu(record: str, options: dict[str, Any]) -> None:
    check_equal(record, **options)


@pytest.fixture()
def held_device() -> Iterator[Any]:
    """Let the device's part of each image wait for the host's part of a later one."""
    if not SIMULATED:
        pytest.skip("holds the simulated nvJPEG")
    folder = Path(os.environ["MXLITE_CUDA_LIBRARY"]).parent
    library = ctypes.CDLL(str(folder / "libmxlite_fake_nvjpeg.so"))
    library.mxlite_fake_nvjpeg_hold(3000)  # milliseconds, if no image follows
    yield library
    library.mxlite_fake_nvjpeg_hold(0)


@pytest.mark.parametrize("batch_size", [1, COUNT])
def test_a_thread_prepares_an_image_while_the_gpu_decodes_another(
    record: str, held_device: Any, batch_size: int
) -> None:
    options = {"preprocess_threads": 1, "batch_size": batch_size, "prefetch_buffer": COUNT}
    found = all_batches(make(record, mx.gpu(0), **options))
    assert held_device.mxlite_fake_nvjpeg_overlapped() >= COUNT // 2
    expected = all_batches(make(record, "cpu", **options))
    for (data, *_), (data2, *_) in zip(found, expected):
        np.testing.assert_array_equal(data, data2)


def test_illumination_equals_that_of_the_cpu(record: str) -> None:
    options = {"max_random_illumination": 20, "scale": 0.1, "seed": 4}
    found, expected = (make(record, c, **options).next().data[0] for c in (mx.gpu(0), mx.cpu()))
    tolerance = 1e-5 if SIMULATED else 0.5  # the CPU may round product and sum apart
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), atol=tolerance)


def test_integers_equal_those_of_the_cpu(record: str) -> None:
    check_equal(record, cls=mx.io.ImageRecordUInt8Iter, rand_mirror=1)
    check_equal(record, cls=mx.io.ImageRecordInt8Iter, mean_r=120, mean_g=130.5, mean_b=2)


def test_a_mean_image_is_subtracted(record: str, tmp_path: Path) -> None:
    check_equal(record, mean_img=str(tmp_path / "mean.nd"), rand_mirror=1)


def test_gray_images_have_equal_channels(tmp_path: Path) -> None:
    gray = [jpeg(picture(50, 60, i)[:, :, 0]) for i in range(2)]
    path = write(tmp_path / "gray.rec", gray)
    check_equal(path)
    data = make(path, mx.gpu(0)).next().data[0].asnumpy()
    np.testing.assert_array_equal(data[:, 0], data[:, 2])
    assert np.ptp(data) > 50
    check_equal(path, data_shape=(1, 32, 32))


def test_images_that_are_shrunk_are_averaged(tmp_path: Path) -> None:
    images = [
        jpeg(picture(h, w, i)) for i, (h, w) in enumerate([(160, 200), (330, 250), (401, 400)])
    ]
    path = write(tmp_path / "large.rec", images)
    check_equal(path, exact=False, resize=48, batch_size=3)
    check_equal(path, exact=False, random_resized_crop=1, batch_size=3, seed=2)
    halved = write(tmp_path / "halved.rec", [jpeg(picture(80, 88, i)) for i in range(2)])
    check_equal(halved, exact=False, resize=40, data_shape=(3, 40, 44))


def test_a_crop_of_twice_the_size_is_averaged_as_by_opencv(tmp_path: Path) -> None:
    path = write(tmp_path / "crops.rec", [jpeg(picture(97, 99, i)) for i in range(2)])
    check_equal(path, min_crop_size=80, max_crop_size=80, rand_crop=1, data_shape=(3, 40, 40))


def test_a_position_continues_on_the_gpu(record: str) -> None:
    whole = make(record, mx.gpu(0), batch_size=4, rand_crop=1, seed=9)
    first = whole.next().data[0].asnumpy()
    state = whole.state_dict()
    rest = whole.next()
    resumed = make(record, mx.gpu(0), batch_size=4, rand_crop=1, seed=9)
    resumed.load_state_dict(state)
    again = resumed.next()
    np.testing.assert_array_equal(again.data[0].asnumpy(), rest.data[0].asnumpy())
    assert again.pad == rest.pad == 2
    np.testing.assert_array_equal(again.data[0].asnumpy()[2:], first[:2])


def cmyk() -> bytes:
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.fromarray(picture(50, 60, 1)).convert("CMYK").save(out, "JPEG", quality=95)
    return out.getvalue()


def test_the_cpu_decodes_what_nvjpeg_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    images = [jpeg(picture(50, 60, i)) for i in range(3)]
    png = recordio.unpack(recordio.pack_img((0, 0.0, 0, 0), picture(50, 60, 5), img_fmt=".png"))[1]
    path = write(tmp_path / "mixed.rec", [images[0], bytes(png), images[1], cmyk()])
    # One thread, so that the PNG file is the first.
    batches = make(path, mx.gpu(0), rand_crop=1, rand_mirror=1, preprocess_threads=1)
    with caplog.at_level(logging.WARNING):
        found = all_batches(batches)
        batches.reset()
        all_batches(batches)
    expected = all_batches(make(path, "cpu", rand_crop=1, rand_mirror=1))
    for (data, *_), (data2, *_) in zip(found, expected):
        np.testing.assert_allclose(data, data2, atol=0 if SIMULATED else 8)
    assert batches.decoded_on_cpu == 4  # two in each epoch
    said = [r.getMessage() for r in caplog.records if "nvJPEG" in r.getMessage()]
    assert len(said) == 1 and "record 1" in said[0] and "no JPEG" in said[0], said


def test_damaged_images_are_errors_of_their_record(tmp_path: Path) -> None:
    good = jpeg(picture(50, 60, 0))
    path = write(tmp_path / "bad.rec", [good, good[: len(good) // 2], good, b"\xff\xd8no jpeg"])
    with pytest.raises(RecordError, match="record 1 .*not a readable JPEG"):
        make(path, mx.gpu(0)).next()
    skipping = make(path, mx.gpu(0), on_error="skip", verbose=0)
    batch = skipping.next()
    expected = make(path, "cpu", on_error="skip").next()
    np.testing.assert_array_equal(batch.label[0].asnumpy(), [0, 2])
    np.testing.assert_allclose(
        batch.data[0].asnumpy(), expected.data[0].asnumpy(), atol=0 if SIMULATED else 8
    )
    assert skipping.bad_records == {"record": 0, "label": 0, "image": 2}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_rotate_angle": 10}, "max_rotate_angle=10"),
        ({"rotate": 90}, "rotate=90"),
        ({"rotate_list": (0, 90)}, "rotate_list="),
        ({"max_shear_ratio": 0.1}, "max_shear_ratio=0.1"),
        ({"max_aspect_ratio": 0.25}, "max_aspect_ratio=0.25"),
        ({"max_random_scale": 2}, "max_random_scale=2"),
        ({"min_random_scale": 0.5}, "min_random_scale=0.5"),
        ({"min_img_size": 10}, "min_img_size=10"),
        ({"max_img_size": 100}, "max_img_size=100"),
        ({"pad": 4}, "pad=4"),
        ({"brightness": 0.1}, "brightness=0.1"),
        ({"contrast": 0.1}, "contrast=0.1"),
        ({"saturation": 0.1}, "saturation=0.1"),
        ({"pca_noise": 0.1}, "pca_noise=0.1"),
        ({"random_h": 3}, "random_h=3"),
        ({"random_s": 3}, "random_s=3"),
        ({"random_l": 3}, "random_l=3"),
        ({"inter_method": 2}, "inter_method=2"),
        ({"resize": 64, "random_resized_crop": 1}, "resize=64 with random_resized_crop"),
        ({"resize": 64, "max_crop_size": 40}, "resize=64 with max_crop_size"),
        ({"data_shape": (4, 32, 32)}, "data_shape of 4 channels"),
    ],
)
def test_options_that_a_gpu_does_not_have_are_named(
    record: str, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(NotSupportedError, match=named.replace("(", r"\(")):
        make(record, mx.gpu(0), **options)
    if options.get("data_shape", (3,))[0] == 3:
        make(record, "cpu", **options).next()


def test_wrong_devices_are_errors(record: str) -> None:
    with pytest.raises(DeviceError, match="MXLITE_NVJPEG=1.*gpu"):
        make(record, mx.gpu(mx.num_gpus()))
    with pytest.raises(ValueError_, match="ctx 'tpu' given"):
        make(record, "tpu")
    with pytest.raises(ValueError_, match="device_id -1 given"):
        make(record, "gpu", device_id=-1)


def run(record: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys, mxlite as mx\n"
        "b = mx.io.ImageRecordIter(path_imgrec=sys.argv[1], data_shape=(3, 40, 44), batch_size=2,"
        " ctx=mx.gpu(0), verbose=0)\n"
        "b.next().data[0].wait_to_read()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, record],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_missing_library_is_an_error_that_says_what_to_install(record: str) -> None:
    missing = run(record, MXLITE_NVJPEG_LIBRARY="/no/libnvjpeg.so")
    assert "DeviceError" in missing.stderr
    assert "nvJPEG cannot be loaded: /no/libnvjpeg.so" in missing.stderr
    assert "MXLITE_NVJPEG_LIBRARY" in missing.stderr
    wrong = run(record, MXLITE_NVJPEG_LIBRARY="libm.so.6")
    assert "libm.so.6 has no nvjpeg" in wrong.stderr
    if any(glob.glob(f"{folder}/nvidia/*/lib/libnvjpeg.so.13") for folder in sys.path):
        return
    absent = run(record, MXLITE_NVJPEG_LIBRARY="")
    if absent.returncode != 0:  # a toolkit may have it
        assert "libnvjpeg.so.13" in absent.stderr
        assert 'pip install "mxlite[cuda,nvjpeg]"' in absent.stderr


def test_too_many_pixels_are_refused_before_memory_is_taken(record: str) -> None:
    refused = run(record, MXLITE_MAX_IMAGE_PIXELS="1000")
    assert "RecordError" in refused.stderr
    assert "at most 1000 pixels expected (MXLITE_MAX_IMAGE_PIXELS)" in refused.stderr


def test_a_full_gpu_is_an_error(record: str) -> None:
    if not SIMULATED:
        pytest.skip("fills the simulated GPU")
    full = run(record, MXLITE_GPU_MEMORY_LIMIT="20000")
    assert full.returncode == 1
    assert "out of memory on gpu(0)" in full.stderr
