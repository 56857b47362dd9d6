r"""Render characters as faces: a character is an identity, its samples differ in typeface.

    apt-get download fonts-noto-cjk fonts-wqy-zenhei fonts-arphic-ukai fonts-arphic-uming \
        fonts-ipafont-gothic fonts-ipafont-mincho
    for deb in *.deb; do dpkg-deb -x $deb fonts; done
    python glyphs.py --fonts fonts --out glyphs --classes 20000 --test-classes 900

Writes ``train.rec`` and ``train.idx`` like InsightFace's face sets, and ``glyphs.bin`` with pairs
of characters that are not among those of the training. If a character has several typefaces, the
last ones are used for the pairs only. Every pixel depends on ``--seed`` and the fonts only.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
from faces import write_face_records
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from verification import write_pairs

CJK = range(0x4E00, 0xA000)
ALPHABETS = range(0x21, 0x3000)  # for fonts without CJK characters
PACKAGES = (
    "fonts-noto-cjk fonts-wqy-zenhei fonts-arphic-ukai fonts-arphic-uming fonts-ipafont-gothic "
    "fonts-ipafont-mincho"
)
_ABSENT = "\U0010fffe"  # no font has it


def find_faces(folders: list[str]) -> list[str]:
    """Return the font files in folders; of a collection only the first typeface is used.

    The other typefaces differ by country, in few characters.
    """
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("*"))]
    return [str(path) for path in paths if path.suffix.lower() in (".ttf", ".otf", ".ttc")]


@lru_cache(maxsize=128)
def _font(face: str, size: int) -> ImageFont.FreeTypeFont:
    basic = ImageFont.Layout.BASIC  # the other engine refuses characters that stand alone
    return ImageFont.truetype(face, size, layout_engine=basic)


def characters_of(face: str, candidates: range) -> set[int]:
    """Return the candidates that a typeface has, without those that look empty."""
    font = _font(face, 24)
    absent = bytes(font.getmask(_ABSENT))

    def has(code: int) -> bool:
        mask = font.getmask(chr(code))
        return mask.getbbox() is not None and bytes(mask) != absent

    if not any(map(has, candidates[::61])):
        return set()
    return set(filter(has, candidates))


def render(face: str, code: int, size: int, random: np.random.Generator) -> bytes:
    """Return a JPEG of a character that is moved, turned, scaled, blurred and partly erased."""
    inner = size * random.uniform(0.85, 1.1) * 0.8
    font = _font(face, max(8, int(inner)))
    light, dark = random.uniform(150, 255), random.uniform(0, 90)
    if random.random() < 0.5:
        light, dark = dark, light
    image = Image.new("L", (size, size), int(light))
    reach = size * 6 / 112
    centre = size / 2 + random.uniform(-reach, reach, 2)
    ImageDraw.Draw(image).text(tuple(centre), chr(code), int(dark), font, anchor="mm")
    image = image.rotate(
        random.uniform(-8, 8), Image.Resampling.BILINEAR, fillcolor=int(light)
    ).filter(ImageFilter.GaussianBlur(random.uniform(0, size / 112)))
    pixels = np.asarray(image, np.float32) + random.normal(0, random.uniform(0, 12), (size, size))
    if random.random() < 0.3:
        height, width = random.integers(size // 10, size // 4, 2)
        top, left = random.integers(0, size - height), random.integers(0, size - width)
        pixels[top : top + height, left : left + width] = random.uniform(0, 255)
    tint = random.uniform(0.8, 1, 3)
    colors = (pixels[..., None] * tint).clip(0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(colors).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def _samples(work: tuple[int, list[str], int, int, int]) -> list[bytes]:
    code, faces, count, size, seed = work
    random = np.random.default_rng((seed, code))
    return [render(faces[i % len(faces)], code, size, random) for i in range(count)]


def _progress(results: Iterator[list[bytes]], total: int, what: str) -> list[list[bytes]]:
    done = []
    for result in results:
        done.append(result)
        if len(done) % 1000 == 0 or len(done) == total:
            print(f"{what}: {len(done)} of {total} characters", flush=True)
    return done


def choose(
    faces: list[str], wanted: int, held_out: int
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return the typefaces of each character of the training, and of each of the pairs.

    A character needs two typefaces. If there are fewer characters than wanted, SystemExit names
    the packages of Debian that have more.
    """
    for candidates in (CJK, ALPHABETS):
        by_face = {face: characters_of(face, candidates) for face in faces}
        useful = [face for face in faces if len(by_face[face]) > 50]
        last = max(2, len(useful) // 3)  # typefaces of the pairs
        parts = (useful[:-last], useful[-last:]) if len(useful) > last + 1 else (useful, useful)
        owners = [
            {code: [f for f in part if code in by_face[f]] for code in candidates} for part in parts
        ]
        train, test = ({c: f for c, f in o.items() if len(f) > 1} for o in owners)
        test = dict(list(test.items())[-held_out:])
        train = {c: f for c, f in train.items() if c not in test}
        if len(train) >= wanted and len(test) == held_out:
            spread = np.linspace(0, len(train) - 1, wanted).round().astype(int)  # all radicals
            codes = list(train)
            return {codes[i]: train[codes[i]] for i in spread}, test
    raise SystemExit(
        f"glyphs: {wanted} characters for training and {held_out} for pairs are needed in two "
        f"typefaces each, the {len(faces)} typefaces found have {len(train)} and {len(test)}; "
        f"unpack these packages of Debian into --fonts: {PACKAGES}"
    )


def make_pairs(
    samples: list[list[bytes]], count: int, random: np.random.Generator
) -> tuple[list[bytes], list[bool]]:
    """Return images and booleans of pairs: in each of 10 folds, half of the pairs are the same."""
    images, same = [], []
    for number in range(count):
        is_same = number * 20 // count % 2 == 0
        first, second = random.choice(len(samples), 2, replace=False)
        if is_same:
            second = first
        one, other = random.permutation(len(samples[first]))[:2]
        images += [samples[first][one], samples[second][other]]
        same.append(is_same)
    return images, same


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--fonts", nargs="+", default=["/usr/share/fonts"], help="folders of fonts")
    add("--out", required=True, help="folder of the results")
    add("--classes", type=int, default=2000, help="characters of the training")
    add("--samples", type=int, default=30, help="pictures of a character")
    add("--test-classes", type=int, default=400, help="characters of the pairs")
    add("--pairs", type=int, default=6000)
    add("--size", type=int, default=112, help="pixels of a side")
    add("--seed", type=int, default=1)
    add("--workers", type=int, default=2, help="processes")
    args = parser.parse_args(argv)
    if args.pairs % 20 or args.pairs < 20 or args.test_classes < 2 or args.classes < 1:
        raise SystemExit(
            "glyphs: --pairs must be a multiple of 20, --test-classes 2 or more and --classes 1 or "
            f"more, got {args.pairs}, {args.test_classes} and {args.classes}"
        )
    faces = find_faces(args.fonts)
    train, test = choose(faces, args.classes, args.test_classes)
    print(f"{len(faces)} typefaces, {len(train)} characters for training, {len(test)} for pairs")
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(args.workers) as pool:
        parts = []
        for what, chosen, count in (("training", train, args.samples), ("pairs", test, 8)):
            work = [(code, owners, count, args.size, args.seed) for code, owners in chosen.items()]
            found = pool.map(_samples, work, chunksize=16)
            parts.append(_progress(found, len(work), what))
    write_face_records(out / "train.rec", parts[0])
    images, same = make_pairs(parts[1], args.pairs, np.random.default_rng(args.seed))
    write_pairs(out / "glyphs.bin", images, same)
    (out / "property").write_text(f"{len(train)},{args.size},{args.size}\n")
    print(f"{out}: {len(train) * args.samples} pictures, {args.pairs} pairs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
