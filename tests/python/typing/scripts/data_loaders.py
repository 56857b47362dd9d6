"""Datasets, samplers, transforms and loaders."""

from __future__ import annotations

from collections.abc import Iterator

import mxlite as mx
import numpy as np
from mxlite.gluon.data import ArrayDataset, BatchSampler, DataLoader, Dataset, RandomSampler
from mxlite.gluon.data.vision import transforms


class Squares(Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[mx.nd.NDArray, float]:
        return mx.nd.array([index, index * index]), float(index % 2)


def batches(loader: DataLoader) -> Iterator[tuple[mx.nd.NDArray, mx.nd.NDArray]]:
    yield from loader


def main() -> None:
    for data, label in batches(
        DataLoader(Squares(), batch_size=4, shuffle=True, last_batch="keep")
    ):
        print(data.shape, label.shape, data.sum().asscalar() + label.sum().asscalar())
    pictures = np.zeros((10, 8, 8, 3), "uint8")
    augment = transforms.Compose(
        [transforms.Resize(6), transforms.ToTensor(), transforms.Normalize(0.5, 0.2)]
    )
    dataset = ArrayDataset(mx.nd.array(pictures, dtype="uint8"), list(range(10)))
    sampler = BatchSampler(RandomSampler(len(dataset)), 5, last_batch="discard")
    loader = DataLoader(dataset.transform_first(augment), batch_sampler=sampler)
    print(len(loader), [batch[0].shape for batch in loader])


if __name__ == "__main__":
    main()
