"""Batches of record files on their way to a GPU."""

from __future__ import annotations

from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd, recordio


def pinned_bytes() -> int:
    return mx.runtime.memory_stats(mx.cpu_pinned())["in_use"]


def test_batches_lie_in_page_locked_memory_while_a_gpu_is_used(tmp_path: Path) -> None:
    path = str(tmp_path / "a.rec")
    images = np.random.randint(0, 256, (8, 16, 16, 3), dtype="uint8")
    with recordio.MXRecordIO(path, "w") as file:
        for i, image in enumerate(images):
            try:
                file.write(recordio.pack_img((0, float(i), i, 0), image, img_fmt=".png"))
            except mx.base.NotSupportedError:
                pytest.skip("this build decodes no images")
    nd.ones((1,), ctx=mx.gpu(0)).wait_to_read()
    before = pinned_bytes()
    options = {"batch_size": 4, "prefetch_buffer": 1}
    batches = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 16, 16), **options)
    batch = batches.next()
    assert pinned_bytes() - before >= 4 * 3 * 16 * 16 * 4
    data, label = batch.data[0], batch.label[0]
    assert data.ctx == mx.cpu()
    on_gpu = data.as_in_context(mx.gpu(0))
    expected = images[:4, :, :, ::-1].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(on_gpu.asnumpy(), expected)
    np.testing.assert_array_equal(label.asnumpy(), np.arange(4))
    np.testing.assert_array_equal((data + 1).asnumpy(), expected + 1.0)
    del batch, data, label, batches
    nd.waitall()
    assert pinned_bytes() <= before + 4 * 4 * 3 * 16 * 16 * 4  # slots are reused, not piled up
