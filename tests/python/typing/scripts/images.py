"""Decode, augment and iterate over images."""

from __future__ import annotations

import tempfile
from pathlib import Path

import mxlite as mx
import numpy as np


def main() -> None:
    picture = mx.nd.array(np.arange(20 * 30 * 3).reshape(20, 30, 3) % 255, dtype="uint8")
    small = mx.image.imresize(picture, 15, 10)
    cropped, box = mx.image.center_crop(small, (8, 8))
    print(small.shape, cropped.shape, box)
    augmenters = mx.image.CreateAugmenter((3, 8, 8), rand_mirror=True, mean=True)
    result = small.astype("float32")
    for augmenter in augmenters:
        result = augmenter(result)
    print(result.shape, mx.nd.image.to_tensor(cropped).shape)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.rec"
        record = mx.recordio.MXRecordIO(str(path), "w")
        header = mx.recordio.IRHeader(0, 1.0, 0, 0)
        record.write(mx.recordio.pack(header, b"bytes"))
        record.close()
        reader = mx.recordio.MXRecordIO(str(path), "r")
        content = reader.read()
        if content is not None:
            found, body = mx.recordio.unpack(content)
            print(found.label, len(body))
        reader.close()


if __name__ == "__main__":
    main()
