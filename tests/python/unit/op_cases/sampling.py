"""Rows of the operators that sample images: crops, grids, regions, deformable convolution."""

from __future__ import annotations

import numpy as np
from op_table import fails, op, rand

CASES = [
    # Crop
    op("Crop", rand(2, 3, 5, 6), h_w=(3, 2), offset=(1, 3), ref=lambda x: x[:, :, 1:4, 3:5]),
    op("Crop", rand(2, 3, 5, 6), h_w=(3, 3), center_crop=True, ref=lambda x: x[:, :, 1:4, 1:4]),
    op(
        "Crop",
        rand(2, 3, 5, 6),
        rand(1, 7, 2, 6),
        num_args=2,
        offset=(2, 0),
        ref=lambda x, _: x[:, :, 2:4],
        grad=[0],
    ),
    op("Crop", np.zeros((0, 3, 5, 6)), h_w=(3, 2), ref=np.zeros((0, 3, 3, 2)), grad=False),
    fails("Crop", rand(2, 3, 5, 6), h_w=(3, 20), error=ValueError, match=r"\(3, 20\) at offset"),
    fails("Crop", rand(2, 3, 5, 6), h_w=(3, 2), offset=(4, 0), error=ValueError, match="not fit"),
    fails("Crop", rand(2, 3, 5, 6), error=ValueError, match="h_w .* two positive numbers"),
    fails("Crop", rand(3, 5, 6), h_w=(3, 2), error=ValueError, match="4 dimensions"),
]
