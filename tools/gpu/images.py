"""Batches of JPEG images that a GPU decodes, beside the CPU's: differences, and images per second.

    MXLITE_NVJPEG=1 python3 tools/gpu/images.py --json FILE

The images are the photographs in --photos as they are, then pictures of 500 x 375 pixels cut out of
them, quality 90; without photographs they are cut out of generated pictures. The exit status is 1
where batches differ by more than MOST_MEAN or MOST_SHARE says, or where the CPU had to decode.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
from mxlite import recordio

WIDTH, HEIGHT, QUALITY = 500, 375, 90
# Limits of the difference of two batches, in the levels 0 to 255 of pixels: its mean, and the share
# of values that differ by more than FAR. The decoders round on their own and interpolate colors
# differently at edges, and images that are shrunk to half are averaged by other filters.
MOST_MEAN, FAR, MOST_SHARE = 1.5, 24, 0.002
EPOCHS = 3


def generated(seed: int) -> Any:
    """Return a picture with edges, gradients and grain, uint8 (height, width, 3)."""
    rng = np.random.RandomState(seed)
    y, x = np.mgrid[0:900, 0:1200]
    picture = np.zeros((900, 1200, 3))
    for _ in range(40):
        (top, left), (radius, wave) = rng.rand(2) * (900, 1200), rng.rand(2) * (200, 60) + 20
        shade = np.sin((x - left) / wave) * np.cos((y - top) / wave) * 30
        inside = (y - top) ** 2 + (x - left) ** 2 < radius**2
        picture[inside] = rng.rand(3) * 200 + shade[inside][:, None]
    picture += rng.normal(0, 4, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def write_record(path: Path, photos: list[bytes], count: int) -> None:
    """Write ``count`` images: the photographs, then cuts of them or of generated pictures."""
    sources = [mx.image.imdecode(photo, to_rgb=False).asnumpy() for photo in photos]
    sources = sources or [generated(seed) for seed in range(4)]
    rng = np.random.RandomState(0)
    encoded = list(photos[:count])
    cuts: list[bytes] = []
    for number in range(min(64, count - len(encoded))):
        source = sources[number % len(sources)]
        height = int(rng.uniform(0.65, 1) * min(source.shape[0], source.shape[1] * 3 / 4))
        width = height * 4 // 3
        top = rng.randint(source.shape[0] - height + 1)
        left = rng.randint(source.shape[1] - width + 1)
        cut = mx.nd.array(source[top : top + height, left : left + width], dtype="uint8")
        resized = mx.image.imresize(cut, WIDTH, HEIGHT).asnumpy()
        packed = recordio.pack_img((0, 0.0, 0, 0), resized, quality=QUALITY, img_fmt=".jpg")
        cuts.append(bytes(recordio.unpack(packed)[1]))
    while len(encoded) < count:
        encoded.append(cuts[len(encoded) % len(cuts)])
    with recordio.MXRecordIO(str(path), "w") as file:
        for number, image in enumerate(encoded):
            file.write(recordio.pack((0, float(number), number, 0), image))


def iterator(record: Path, ctx: Any, options: argparse.Namespace) -> mx.io.ImageRecordIter:
    """Return batches as a training of ResNet-50 reads them, in levels of pixels."""
    return mx.io.ImageRecordIter(
        path_imgrec=str(record),
        data_shape=(3, 224, 224),
        batch_size=options.batch,
        resize=256,
        rand_crop=1,
        rand_mirror=1,
        seed=1,
        preprocess_threads=options.threads,
        ctx=ctx,
        verbose=0,
    )


def difference(record: Path, options: argparse.Namespace) -> dict[str, float]:
    """Compare one epoch of both devices."""
    total, count, far, largest = 0.0, 0, 0, 0.0
    on_gpu, on_cpu = (iterator(record, ctx, options) for ctx in (mx.gpu(0), mx.cpu()))
    for found, expected in zip(on_gpu, on_cpu):
        if found.data[0].ctx != mx.gpu(0):
            raise SystemExit("the batches are not on the GPU: MXLITE_NVJPEG=1 is not set")
        apart = np.abs(found.data[0].asnumpy() - expected.data[0].asnumpy())
        total += float(apart.sum(dtype=np.float64))
        count += apart.size
        far += int((apart > FAR).sum())
        largest = max(largest, float(apart.max()))
    return {
        "mean": total / count,
        "share_far": far / count,
        "far": FAR,
        "largest": largest,
        "decoded_on_cpu": on_gpu.decoded_on_cpu,
    }


def images_per_second(record: Path, ctx: Any, options: argparse.Namespace) -> float:
    """Return the median rate of EPOCHS epochs after one that warms up."""
    batches = iterator(record, ctx, options)
    rates = []
    for _ in range(EPOCHS + 1):
        begin = time.perf_counter()
        images = 0
        for batch in batches:
            batch.data[0].wait_to_read()
            images += options.batch - (batch.pad or 0)
        rates.append(images / (time.perf_counter() - begin))
        batches.reset()
    return statistics.median(rates[1:])


def main() -> int:
    """Compare, measure and write; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", required=True)
    parser.add_argument("--photos", type=Path, help="folder with *.jpg; generated pictures if none")
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    paths = sorted(options.photos.glob("*.jpg")) if options.photos else []
    rates: dict[str, float] = {}
    figures: dict[str, Any] = {
        "images": options.images,
        "batch": options.batch,
        "threads": options.threads,
        "photographs": len(paths),
    }

    def keep() -> None:
        # A run that is cut short has what it found so far.
        Path(options.json).write_text(json.dumps(figures))

    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "photos.rec"
        write_record(record, [path.read_bytes() for path in paths], options.images)
        apart = difference(record, options)
        good = apart["mean"] <= MOST_MEAN and apart["share_far"] <= MOST_SHARE
        good = good and apart["decoded_on_cpu"] == 0
        figures.update(difference=apart, agrees=good)
        keep()
        for name, ctx in (("gpu", mx.gpu(0)), ("cpu", mx.cpu())):
            rates[name] = images_per_second(record, ctx, options)
            figures["images_per_second"] = rates
            keep()
    print(f"levels apart: mean {apart['mean']:.3f}, largest {apart['largest']:.0f}, ", end="")
    print(f"more than {FAR}: {apart['share_far']:.4%}; decoded by the CPU: ", end="")
    print(f"{apart['decoded_on_cpu']:.0f}")
    print(f"images per second: GPU {rates['gpu']:.0f}, CPU {rates['cpu']:.0f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
