"""Batches of face images: InsightFace's record files, or random pixels to measure speed."""

from __future__ import annotations

import argparse
from pathlib import Path

import mxlite as mx
import numpy as np
from mxlite import recordio


def write_face_records(path: str | Path, identities: list[list[bytes]]) -> None:
    """Write ``.rec`` and ``.idx`` files like InsightFace's from encoded images by identity.

    Record 0 has the range of the identities' records. Each of these has the range of its images.
    """
    path = Path(path)
    first = 1 + sum(map(len, identities))
    with recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w") as file:

        def write(key: int, labels: list[float], image: bytes = b"") -> None:
            header = recordio.IRHeader(len(labels), np.array(labels, np.float32), key, 0)
            file.write_idx(key, recordio.pack(header, image))

        write(0, [first, first + len(identities)])
        ranges, key = [], 1
        for label, images in enumerate(identities):
            ranges.append((key, key + len(images)))
            for image in images:
                write(key, [label, 0], image)
                key += 1
        for number, (begin, end) in enumerate(ranges):
            write(first + number, [begin, end])


def describe(path: Path) -> tuple[int, int]:
    """Return the number of identities and of labels of an image record."""
    with recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r") as file:
        header, _ = recordio.unpack(file.read_idx(0) or b"")
        if header.flag != 2:
            raise SystemExit(f"insightface: record 0 of {path} must have the range of identities")
        image, _ = recordio.unpack(file.read_idx(1) or b"")
        return int(header.label[1] - header.label[0]), max(1, image.flag)


class FaceImages:
    """Reads a rank's part of a record file endlessly; images are mirrored at random."""

    def __init__(self, args: argparse.Namespace, rank: int, ranks: int) -> None:
        path = Path(args.rec)
        try:
            self.classes, width = describe(path)
            self._records = mx.io.ImageRecordIter(
                path_imgrec=str(path),
                path_imgidx=str(path.with_suffix(".idx")),
                data_shape=(3, args.image_size, args.image_size),
                batch_size=args.batch_size,
                label_width=width,
                dtype="uint8",
                shuffle=True,
                rand_mirror=True,
                seed=args.seed,
                part_index=rank,
                num_parts=ranks,
                preprocess_threads=args.threads,
                verbose=False,
            )
        except mx.MXNetError as error:
            raise SystemExit(f"insightface: {error}") from error
        # Parts differ by a few records; all ranks make as many steps as the smallest part has.
        count = mx.nd.array([self._records.num_records // args.batch_size], dtype="int64")
        self.steps_of_epoch = int(mx.nd.contrib.all_reduce(count, op="min").asscalar())
        if not self.steps_of_epoch:
            raise SystemExit(
                f"insightface: a batch of {args.batch_size} is larger than the "
                f"{self._records.num_records} images of a rank"
            )
        self._step = 0

    def read(self) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
        """Return pixels, uint8 (batch, 3, size, size), and labels, (batch,)."""
        if self._step and self._step % self.steps_of_epoch == 0:
            self._records.reset()
        self._step += 1
        batch = self._records.next()
        label = batch.label[0]
        return batch.data[0], label if len(label.shape) == 1 else label[:, 0]

    def skip(self, steps: int) -> None:
        """Continue after this number of steps."""
        epoch, batches = divmod(steps, self.steps_of_epoch)
        if steps and not batches:
            epoch, batches = epoch - 1, self.steps_of_epoch
        state = self._records.state_dict()
        samples = batches * self._records.batch_size
        state["position"] = [epoch, batches, samples, *state["position"][3:]]
        self._records.load_state_dict(state)
        self._step = steps


class RandomImages:
    """One batch of random pixels, with other random labels in each step."""

    def __init__(self, args: argparse.Namespace, rank: int, ranks: int) -> None:
        self.classes = args.synthetic
        self.steps_of_epoch = max(1, args.steps)
        self._random = np.random.RandomState((args.seed, rank))
        shape = (args.batch_size, 3, args.image_size, args.image_size)
        self._pixels = mx.nd.array(self._random.randint(0, 256, shape), dtype="uint8")

    def read(self) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
        """Return pixels, uint8 (batch, 3, size, size), and labels, (batch,)."""
        labels = self._random.randint(0, self.classes, len(self._pixels))
        return self._pixels, mx.nd.array(labels, dtype="int64")

    def skip(self, steps: int) -> None:
        """Continue after this number of steps."""
        for _ in range(steps):
            self._random.randint(0, self.classes, len(self._pixels))
