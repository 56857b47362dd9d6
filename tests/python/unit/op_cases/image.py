"""Rows of the image operators."""

from __future__ import annotations

import colorsys

import numpy as np
from op_table import draws, fails, op, rand, randint

PHOTO = randint(0, 256, 5, 6, 3, dtype="uint8")
BATCH = randint(0, 256, 2, 4, 3, 3, dtype="uint8")
FLAT = np.full((4, 5, 3), 100, dtype="uint8")
GRAY = np.array([0.299, 0.587, 0.114])


def bilinear(x: np.ndarray, height: int, width: int) -> np.ndarray:
    def axis(values: np.ndarray, to: int, dim: int) -> np.ndarray:
        n = values.shape[dim]
        center = np.clip((np.arange(to) + 0.5) * n / to - 0.5, 0, n - 1)
        low = np.floor(center).astype(int)
        high = np.minimum(low + 1, n - 1)
        shape = [1] * values.ndim
        shape[dim] = to
        part = (center - low).reshape(shape)
        return values.take(low, dim) * (1 - part) + values.take(high, dim) * part

    return axis(axis(x.astype(float), height, x.ndim - 3), width, x.ndim - 2)


def rounded(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x), 0, 255)


def half(x: np.ndarray) -> bool:
    return 0.35 < x.mean() < 0.65


def fixed(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bilinear in 2048ths, as OpenCV resizes images of uint8."""

    def taps(n: int, to: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        center = ((np.arange(to) + 0.5) * n / to - 0.5).astype("f4")
        low = np.floor(center).astype(int)
        share = center - low
        return low, np.rint((1 - share) * 2048).astype(int), np.rint(share * 2048).astype(int)

    n = x.shape[-2]
    low, first, second = taps(n, width)
    first[(low < 0) | (low >= n - 1)], second[(low < 0) | (low >= n - 1)] = 2048, 0
    pairs = [x.take(np.clip(low + i, 0, n - 1), -2).astype(int) for i in (0, 1)]
    wide = (pairs[0] * first[:, None] + pairs[1] * second[:, None]) >> 4
    n = x.shape[-3]
    low, first, second = taps(n, height)
    pairs = [wide.take(np.clip(low + i, 0, n - 1), -3) for i in (0, 1)]
    parts = [(p * w[:, None, None]) >> 16 for p, w in zip(pairs, (first, second))]
    return np.clip((parts[0] + parts[1] + 2) >> 2, 0, 255)


def quarters(x: np.ndarray) -> np.ndarray:
    return x.reshape(2, 2, 3, 2, 3)


def turned(x: np.ndarray, turn: float) -> np.ndarray:
    result = np.array(x, dtype=float)
    for index in np.ndindex(x.shape[:-1]):
        hue, light, saturation = colorsys.rgb_to_hls(*(x[index] / 255.0))
        result[index] = np.array(colorsys.hls_to_rgb((hue + turn) % 1.0, light, saturation)) * 255
    return result


PAIRS = np.tile(np.arange(2.0), 200)
ALPHA = (0.1, -0.2, 0.3)
EXACT = {"dtypes": ("float32", "float64"), "grad": False}
COLOUR = {"dtypes": ("float32",), "grad": False}
PHOTO_F = rand(4, 5, 3, low=1, high=250)
EIGEN = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
) * np.array([55.46, 4.794, 1.148])

AS_SINGLE = {**EXACT, "out_dtype": "float32"}
BYTES, WIDE = randint(0, 256, 4, 6, 3, dtype="uint8"), rand(4, 6, 3, low=1, high=250)
RESIZE = "_image_resize"
CASES = [
    op("_image_to_tensor", PHOTO, ref=lambda x: (x.transpose(2, 0, 1) / 255.0).astype("f4")),
    op("_image_to_tensor", BATCH, ref=lambda x: (x.transpose(0, 3, 1, 2) / 255.0).astype("f4")),
    op("_image_to_tensor", PHOTO_F, **AS_SINGLE, ref=lambda x: x.transpose(2, 0, 1) / 255),
    fails("_image_to_tensor", (3, 4), match="height, width, channels"),
    fails("_image_to_tensor", PHOTO.astype("int32"), error=TypeError, match="int32"),
    op(
        "_image_normalize",
        (3, 4, 5),
        mean=(0.1, 0.2, 0.3),
        std=(0.5, 2.0, 4.0),
        ref=lambda x: (x - np.c_[[0.1, 0.2, 0.3]][..., None]) / np.c_[[0.5, 2.0, 4.0]][..., None],
    ),
    op("_image_normalize", (2, 3, 4, 5), mean=0.5, std=0.25, ref=lambda x: (x - 0.5) / 0.25),
    fails("_image_normalize", (3, 4, 5), mean=(1, 2), match="at least 3 numbers"),
    fails("_image_normalize", PHOTO, error=TypeError, match="to_tensor"),
    op("_image_crop", PHOTO, x=1, y=2, width=4, height=3, ref=lambda x: x[2:5, 1:5]),
    op("_image_crop", (2, 5, 6, 3), x=0, y=1, width=2, height=2, ref=lambda x: x[:, 1:3, 0:2]),
    fails("_image_crop", PHOTO, x=4, y=0, width=4, height=3, match="must be within the image"),
    op("_image_flip_left_right", PHOTO, ref=lambda x: x[:, ::-1]),
    op("_image_flip_left_right", (2, 4, 5, 3), ref=lambda x: x[:, :, ::-1]),
    op("_image_flip_top_bottom", BATCH, ref=lambda x: x[:, ::-1]),
    op("_image_flip_top_bottom", (4, 5, 1), ref=lambda x: x[::-1]),
    op(RESIZE, PHOTO_F, size=(7, 3), ref=lambda x: bilinear(x, 3, 7), **COLOUR),
    op(RESIZE, PHOTO, size=(12, 5), ref=lambda x: fixed(x, 5, 12)),
    op(RESIZE, BATCH, size=(6, 8), ref=lambda x: fixed(x, 8, 6)),
    op(RESIZE, PHOTO, size=10, keep_ratio=True, ref=lambda x: fixed(x, 10, 12)),
    op(RESIZE, PHOTO, size=(12, 10), interp=0, ref=lambda x: x.repeat(2, 0).repeat(2, 1)),
    op(RESIZE, WIDE, size=(3, 2), interp=3, ref=lambda x: quarters(x).mean((1, 3)), **COLOUR),
    op(RESIZE, BYTES, size=(3, 2), ref=lambda x: (quarters(x).sum((1, 3), dtype=int) + 2) >> 2),
    op(RESIZE, PHOTO, size=(12, 10), interp=3, ref=lambda x: x.repeat(2, 0).repeat(2, 1)),
    op(
        RESIZE,
        PHOTO_F,
        size=(10, 2),
        interp=3,
        ref=lambda x: x.reshape(2, 2, 5, 3).mean(1).repeat(2, 1),
        **COLOUR,
    ),
    op(RESIZE, FLAT, size=(9, 3), interp=2, ref=np.full((3, 9, 3), 100)),
    op(RESIZE, FLAT, size=(9, 3), interp=4, ref=np.full((3, 9, 3), 100)),
    fails(RESIZE, PHOTO, size=(3, 0), match=r"size must be from 1 .*\(3, 0\)"),
    fails(RESIZE, PHOTO, size=3, interp=7, match="interp must be from 0 to 4"),
    *(
        op(f"_image_random_{change}", photo, min_factor=n, max_factor=n, ref=ref, **options)
        for change, photo, n, options, ref in [
            ("brightness", PHOTO_F, 0.5, COLOUR, lambda x: x * 0.5),
            ("brightness", PHOTO, 2, {}, lambda x: rounded(x * 2.0)),
            ("contrast", PHOTO_F, 0.25, COLOUR, lambda x: 0.25 * x + 0.75 * (x @ GRAY).mean()),
            (
                "saturation",
                PHOTO_F,
                0.25,
                COLOUR,
                lambda x: 0.25 * x + 0.75 * (x @ GRAY)[..., None],
            ),
        ]
    ),
    op(
        "_image_random_hue",
        PHOTO_F,
        min_factor=0.3,
        max_factor=0.3,
        ref=lambda x: turned(x, 0.3),
        tol=40,
        why="values of up to 255 cancel in the lightness and the chroma of a pixel",
        **COLOUR,
    ),
    op("_image_random_hue", PHOTO_F, min_factor=1, max_factor=1, ref=lambda x: x, **COLOUR),
    op("_image_adjust_lighting", PHOTO_F, alpha=ALPHA, ref=lambda x: x + EIGEN @ ALPHA, **COLOUR),
    fails("_image_adjust_lighting", PHOTO, alpha=(1, 2), match="3 numbers, got 2"),
    fails("_image_random_hue", (4, 5, 2), min_factor=0, max_factor=1, match="got 2 in"),
    fails(
        "_image_random_brightness",
        PHOTO,
        min_factor=2,
        max_factor=1,
        match="min_factor must be at most max_factor, 1, got 2",
    ),
    draws(
        "_image_random_brightness",
        np.ones((200, 1, 1, 3)),
        min_factor=0,
        max_factor=2,
        check=lambda x: abs(x.mean() - 1) < 0.2 and x.min() >= 0 and x.max() <= 2,
    ),
    *(
        draws(f"_image_random_flip_{way}", PAIRS.reshape(shape), check=lambda x: half(x[:, 0]))
        for way, shape in [("left_right", (200, 1, 2, 1)), ("top_bottom", (200, 2, 1, 1))]
    ),
    draws(
        "_image_random_color_jitter",
        np.tile(PHOTO_F, (8, 1, 1, 1)),
        brightness=0.3,
        contrast=0.3,
        saturation=0.3,
        hue=0.1,
        check=lambda x: np.isfinite(x).all() and x[:, 0, 0, 0].std() > 0.1,
    ),
    draws(
        "_image_random_lighting",
        np.zeros((400, 1, 1, 3)),
        alpha_std=0.5,
        check=lambda x: abs(x[..., 0].std() - 0.5 * np.linalg.norm(EIGEN[0])) < 2,
    ),
]
