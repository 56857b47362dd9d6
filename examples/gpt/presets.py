"""The 18 GPT cases of the DLPerf comparison (2021), and the arithmetic of a GPT iteration.

A name is ``group_DATAxTENSORxPIPELINE_batch_HIDDENxLAYERS``; all have sequences of 2,048 tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LENGTH = 2048

# Case: micro batch, heads, milliseconds of an iteration with OneFlow and with Megatron-LM, on up to
# 32 V100s (16 GB).
CASES = {
    "DP_1x1x1_2_1536x16": (2, 16, 406.16, 464.12),
    "DP_8x1x1_16_1536x16": (2, 16, 417.95, 480.96),
    "DP_16x1x1_32_1536x16": (2, 16, 489.67, 664.46),
    "DP_32x1x1_64_1536x16": (2, 16, 518.64, 683.51),
    "MP_1x1x1_8_768x12": (8, 12, 525.21, 611.2),
    "MP_1x8x1_16_1536x16": (16, 16, 642.13, 692.44),
    "MP_1x16x1_16_3072x16": (16, 32, 4819.29, 5610.23),
    "MP_1x32x1_16_3072x32": (16, 32, 9505.83, 13037.85),
    "2D_8x1x1_16_1536x16": (2, 16, 417.90, 480.22),
    "2D_1x8x1_16_1536x16": (16, 16, 644.4, 664.64),
    "2D_2x4x1_16_1536x16": (8, 16, 539.69, 576.48),
    "2D_4x2x1_16_1536x16": (4, 16, 543.88, 593.68),
    "2D_2x8x1_16_2304x24": (8, 24, 1268.53, 1313.52),
    "2D_4x8x1_32_2304x24": (8, 24, 1480.34, 1508.48),
    "DP_PP_8x1x4_512_1536x16": (2, 16, 4006.31, 4893.55),
    "MP_PP_1x8x4_512_2304x24": (16, 24, 19196.65, 22166.85),
    "2D_PP_2x4x4_512_2304x24": (8, 24, 13117.18, 15331.23),
    "2D_PP_2x8x2_512_2304x24": (8, 24, 14375.35, 16281.51),
}


@dataclass(frozen=True)
class Case:
    """A published case."""

    data: int
    tensor: int
    pipeline: int
    batch: int
    hidden: int
    layers: int
    micro_batch: int
    heads: int


def case(name: str) -> Case:
    """Return a case by its name; raise SystemExit if there is none."""
    if name not in CASES:
        raise SystemExit(f"gpt: there is no preset {name!r}; there are {', '.join(CASES)}")
    sizes = map(int, re.findall(r"\d+", name.split("_", 1)[1].removeprefix("PP_")))
    return Case(*sizes, *CASES[name][:2])


def iteration_flops(
    batch: int, length: int, layers: int, hidden: int, vocabulary: int, recompute: bool = False
) -> float:
    """Return floating-point operations of an iteration, attention counted whole.

    Backward has twice as many products as forward. ``recompute`` counts forward once more, as
    DLPerf's tables do. The utilization of a device (MFU) is computed without ``recompute``.
    """
    factor = 96.0 if recompute else 72.0
    terms = 1 + length / (6 * hidden) + vocabulary / (16 * layers * hidden)
    return factor * batch * length * layers * hidden**2 * terms
