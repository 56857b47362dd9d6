"""A data set of photographs, JPEG of 500 x 375 pixels: in files and in a record.

The pictures are parts of the photographs in scikit-image and scikit-learn, at many places and
sizes, so that they compress as photographs do. Pillow encodes them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

QUALITY = 90
WIDTH, HEIGHT = 500, 375


def photographs() -> list[np.ndarray]:
    """Return the source photographs, uint8 (height, width, 3) RGB."""
    from skimage import data
    from sklearn.datasets import load_sample_images

    found = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()]
    found += list(load_sample_images().images)
    return [np.ascontiguousarray(picture) for picture in found]


def make_photos(folder: Path, count: int) -> Path:
    """Write ``<folder>/images/*.jpg``, ``photos.rec``, ``.idx`` and ``.lst`` unless they exist.

    Parameters
    ----------
    folder : path
    count : int
        Number of pictures.

    Returns
    -------
    path
        The record file.
    """
    import mxlite as mx
    from PIL import Image

    record, ready = folder / "photos.rec", folder / f"ready-{count}"
    if ready.exists():
        return record
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    for other in folder.glob("ready-*"):  # the record will hold another number of pictures
        other.unlink()
    rng = np.random.RandomState(0)
    sources = photographs()
    with (
        mx.recordio.MXIndexedRecordIO(str(folder / "photos.idx"), str(record), "w") as file,
        open(folder / "photos.lst", "w") as listing,
    ):
        for number in range(count):
            source = sources[number % len(sources)]
            height = int(rng.uniform(0.65, 1.0) * min(source.shape[0], source.shape[1] * 3 / 4))
            width = height * 4 // 3
            y = rng.randint(source.shape[0] - height + 1)
            x = rng.randint(source.shape[1] - width + 1)
            cut = Image.fromarray(source[y : y + height, x : x + width])
            picture = cut.resize((WIDTH, HEIGHT), Image.BICUBIC)
            name = images / f"{number:05d}.jpg"
            picture.save(name, quality=QUALITY)
            label = number % 10
            header = mx.recordio.IRHeader(0, float(label), number, 0)
            file.write_idx(number, mx.recordio.pack(header, name.read_bytes()))
            listing.write(f"{number}\t{label}\t{name.name}\n")
    ready.touch()
    return record
