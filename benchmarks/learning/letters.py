"""Draws a set of ten classes for learning: letters over photographs, JPEG in record files.

    python letters.py FOLDER [training pictures] [validation pictures]

The classes are capital letters that look the same in a mirror, because training mirrors pictures.
A picture shows one letter in any color, turned by up to 15 degrees, over a part of a photograph of
scikit-image or scikit-learn. The typefaces are those of matplotlib. Neither typefaces nor
photographs of the validation pictures occur in training.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "io"))
from photos import photographs  # noqa: E402

CLASSES = "AHIMOTUVXY"
SIDE, QUALITY = 96, 92
TRAIN_FACES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "STIXGeneral", "STIXGeneralBol"),
)
VAL_FACES = ("cmr10", "cmb10", "cmss10", "cmtt10")
TRAIN_PHOTOGRAPHS = slice(0, 4)
VAL_PHOTOGRAPHS = slice(4, 6)


def background(photograph: np.ndarray, random: np.random.RandomState) -> Any:
    """Return a square part of a photograph, made darker or lighter, and whether it is dark.

    Parameters
    ----------
    photograph : numpy.ndarray
        uint8 of shape (height, width, 3).
    random : numpy.random.RandomState
        Chooses place, size and brightness.

    Returns
    -------
    (PIL.Image.Image, bool)
        The part, SIDE x SIDE pixels.
    """
    from PIL import Image

    height, width = photograph.shape[:2]
    side = random.randint(SIDE, min(height, width) + 1)
    y, x = random.randint(height - side + 1), random.randint(width - side + 1)
    part = Image.fromarray(photograph[y : y + side, x : x + side]).resize((SIDE, SIDE))
    pixels = np.asarray(part, np.float32) * random.uniform(0.2, 0.5)
    dark = bool(random.randint(2))
    if not dark:
        pixels = 255 - (255 - np.asarray(part, np.float32)) * random.uniform(0.2, 0.5)
    return Image.fromarray(pixels.astype(np.uint8)), dark


def picture(letter: str, face: Path, photograph: np.ndarray, random: np.random.RandomState) -> Any:
    """Return one picture of a letter.

    Parameters
    ----------
    letter : str
        The letter.
    face : path
        File of the typeface.
    photograph : numpy.ndarray
        Background of the letter.
    random : numpy.random.RandomState
        Chooses everything else.

    Returns
    -------
    PIL.Image.Image
        SIDE x SIDE pixels, RGB.
    """
    from PIL import Image, ImageDraw, ImageFont

    image, dark = background(photograph, random)
    font = ImageFont.truetype(str(face), int(SIDE * random.uniform(0.7, 1.1)))
    ink = Image.new("L", (2 * SIDE, 2 * SIDE))
    ImageDraw.Draw(ink).text((SIDE, SIDE), letter, fill=255, font=font, anchor="mm")
    ink = ink.rotate(random.uniform(-15, 15), Image.Resampling.BILINEAR)
    color = tuple(random.randint(160, 256, 3) if dark else random.randint(0, 96, 3))
    shift = random.uniform(-0.1, 0.1, 2) * SIDE
    corner = (int(shift[0] - SIDE / 2), int(shift[1] - SIDE / 2))
    image.paste(tuple(map(int, color)), corner, ink)
    return image


def write_records(folder: Path, name: str, count: int, seed: int) -> Path:
    """Write ``<name>.rec`` and ``<name>.idx``; record i is of class i mod 10.

    Parameters
    ----------
    folder : path
        Folder of the files.
    name : {'train', 'val'}
        Name of the files, which also selects typefaces and photographs.
    count : int
        Number of pictures.
    seed : int
        Equal seeds and versions of the packages give equal files.

    Returns
    -------
    path
        The record file.
    """
    import io

    import matplotlib
    import mxlite as mx

    names = TRAIN_FACES if name == "train" else VAL_FACES
    faces = [Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf" for face in names]
    sources = photographs()[TRAIN_PHOTOGRAPHS if name == "train" else VAL_PHOTOGRAPHS]
    random = np.random.RandomState(seed)
    path = folder / f"{name}.rec"
    with mx.recordio.MXIndexedRecordIO(str(folder / f"{name}.idx"), str(path), "w") as file:
        for number in range(count):
            label = number % len(CLASSES)
            face = faces[random.randint(len(faces))]
            source = sources[random.randint(len(sources))]
            drawn = picture(CLASSES[label], face, source, random)
            content = io.BytesIO()
            drawn.save(content, "JPEG", quality=QUALITY)
            header = mx.recordio.IRHeader(0, float(label), number, 0)
            file.write_idx(number, mx.recordio.pack(header, content.getvalue()))
    return path


def main() -> None:
    """Write both files."""
    folder = Path(sys.argv[1])
    counts = [int(count) for count in sys.argv[2:]] or [1920, 400]
    for seed, (name, count) in enumerate(zip(("train", "val"), counts)):
        write_records(folder, name, count, seed)


if __name__ == "__main__":
    main()
