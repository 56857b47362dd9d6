"""Makes image lists, and record files from them, like MXNet 1.x's ``im2rec.py``.

``python -m mxlite.tools.im2rec --list --recursive PREFIX ROOT`` writes PREFIX.lst;
``python -m mxlite.tools.im2rec PREFIX ROOT`` writes PREFIX.rec and PREFIX.idx. The images keep the
order of the list. Images that cannot be read are left out and listed, and the exit status
is 1. A record file has a temporary name until it is complete; after an interruption, the same
command continues where it stopped.
"""

from __future__ import annotations

import argparse
import os
import random
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import _core
from .._files.whole import open_text
from .._progress import track
from ..base import MissingFileError, MXNetError
from ..recordio import pack
from .partial import PartialRecord, fingerprint
from .progress import CountLines

_CHUNK = 512  # number of images between two entries of the journal


class ListItem(NamedTuple):
    """One line of a list."""

    number: int
    path: str
    labels: list[float]


def list_images(root: str, recursive: bool, exts: Sequence[str]) -> Iterator[ListItem]:
    """Yield the images below a folder, sorted by name."""
    folders: dict[str, int] = {}
    number = 0
    walk = os.walk(root, followlinks=True) if recursive else [(root, [], os.listdir(root))]
    for folder, inner, files in walk:
        inner.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            if os.path.splitext(name)[1].lower() not in exts or not os.path.isfile(path):
                continue
            label = folders.setdefault(folder, len(folders)) if recursive else 0
            yield ListItem(number, os.path.relpath(path, root), [label])
            number += 1
    for folder, label in folders.items():
        print(os.path.relpath(folder, root), label)


def _warn(text: str) -> None:
    print(f"im2rec: warning: {text}", file=sys.stderr)


def _write_list(path: str, items: Sequence[ListItem]) -> None:
    partial = path + ".partial"
    try:
        with open(partial, "w", encoding="utf-8", errors="surrogateescape") as file:
            for item in items:
                labels = "".join(f"{label:f}\t" for label in item.labels)
                file.write(f"{item.number}\t{labels}{item.path}\n")
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)


def make_list(options: argparse.Namespace) -> None:
    """Write the lists that the options describe."""
    if not os.path.isdir(options.root):
        raise MissingFileError(f"there is no folder {options.root!r}")
    found = list_images(options.root, options.recursive, options.exts)
    items = list(track(found, "images found", "image"))
    if not items:
        where = "or below it" if options.recursive else "(with --recursive: or below it)"
        _warn(
            f"there are no images in {options.root!r}: files with {', '.join(options.exts)} are "
            f"expected in this folder {where}"
        )
    if options.shuffle:
        random.seed(100)
        random.shuffle(items)
    length = (len(items) + options.chunks - 1) // options.chunks
    train, test = int(length * options.train_ratio), int(length * options.test_ratio)
    for number in range(options.chunks):
        chunk = items[number * length : (number + 1) * length]
        stem = options.prefix + (f"_{number}" if options.chunks > 1 else "")
        if options.train_ratio == 1.0:
            _write_list(stem + ".lst", chunk)
            continue
        if options.test_ratio:
            _write_list(stem + "_test.lst", chunk[:test])
        if options.train_ratio + options.test_ratio < 1.0:
            _write_list(stem + "_val.lst", chunk[test + train :])
        _write_list(stem + "_train.lst", chunk[test : test + train])


def read_list(path: str) -> list[ListItem]:
    """Read a list; print and skip invalid lines."""
    items = []
    with open_text(path, errors="surrogateescape") as lines:
        for line in lines:
            fields = [field.strip() for field in line.strip().split("\t")]
            if len(fields) < 3:
                print(
                    "lst should have at least has three parts, but only has "
                    f"{len(fields)} parts for {fields}"
                )
                continue
            try:
                item = ListItem(int(fields[0]), fields[-1], [float(f) for f in fields[1:-1]])
                struct.pack(f"<Q{len(item.labels)}f", item.number, *item.labels)  # may raise
                items.append(item)
            except (ValueError, OverflowError, struct.error) as error:
                print(f"Parsing lst met error for {fields}, detail: {error}")
    return items


def make_record(path: str, options: argparse.Namespace) -> list[str]:
    """Write the record file and the index of a list."""
    items = read_list(path)
    if not items:
        _warn(f"the list {path!r} names no images, its record file is empty")
    settings = {
        key: getattr(options, key)
        for key in "root pass_through color center_crop resize encoding quality pack_label".split()
    }
    png = options.encoding == ".png"
    packer = _core.ImagePacker(
        pass_through=options.pass_through,
        color=options.color,
        center_crop=options.center_crop,
        resize=options.resize,
        png=png,
        quality=min(options.quality, 9) if png else options.quality,
        threads=options.num_thread,
    )

    def headed(item: ListItem) -> tuple[bytes, bytes]:
        several = options.pack_label and len(item.labels) > 1
        header = pack((0, item.labels if several else item.labels[0], item.number, 0), b"")
        return os.fsencode(os.path.join(options.root, item.path)), header

    stem = os.path.splitext(path)[0]
    with PartialRecord(stem, fingerprint(path, settings)) as output:
        begin = output.done
        if begin:
            print(f"{stem}.rec: continuing after the first {begin} of {len(items)} images")
        with CountLines(len(items), os.path.basename(stem) + ".rec", begin) as progress:
            # The threads always have two chunks, so that they work while the previous one is
            # written.
            chunks = [items[at : at + _CHUNK] for at in range(begin, len(items), _CHUNK)]
            for number, chunk in enumerate(chunks):
                for ahead in chunks[number and number + 1 : number + 2]:
                    packer.add([headed(item) for item in ahead])
                for step in range(0, len(chunk), 64):
                    part = chunk[step : step + 64]
                    found = packer.write(output.writer, len(part))
                    for item, (offset, error) in zip(part, found):
                        if error:
                            output.bad.append(error)
                            name = os.path.join(options.root, item.path)
                            progress.say(
                                f"imread read blank (None) image for file: {name} ({error})"
                            )
                        else:
                            output.add_index(item.number, offset)
                    progress.add(len(part))
                output.commit(len(chunk))
        output.finish()
        return output.bad


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="im2rec",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Create an image list, or a record file from an image list.",
    )
    parser.add_argument("prefix", help="prefix of the .lst, .rec and .idx files")
    parser.add_argument("root", help="folder with the images")
    lists = parser.add_argument_group("Options for creating image lists")
    add = lists.add_argument
    add("--list", action="store_true", help="write <prefix>.lst instead of <prefix>.rec")
    add("--exts", nargs="+", default=[".jpeg", ".jpg", ".png"], help="names of images end so")
    add("--chunks", type=int, default=1, help="number of lists")
    add("--train-ratio", type=float, default=1.0, help="share of the images for training")
    add("--test-ratio", type=float, default=0, help="share of the images for testing")
    add("--recursive", action="store_true", help="also look into folders; each gives a label")
    add("--no-shuffle", dest="shuffle", action="store_false", help="keep the order of the names")
    records = parser.add_argument_group("Options for creating record files")
    add = records.add_argument
    add("--pass-through", action="store_true", help="store the files' bytes unchanged")
    add("--resize", type=int, default=0, help="new length of the shorter side; 0: unchanged")
    add("--center-crop", action="store_true", help="cut out the central square")
    add("--quality", type=int, default=95, help="1 to 100 for JPEG, 0 to 9 for PNG")
    add("--num-thread", type=int, default=1, help="number of threads that read and encode")
    add("--color", type=int, default=1, choices=[-1, 0, 1], help="1: color, 0: gray, -1: as it is")
    add("--encoding", default=".jpg", choices=[".jpg", ".png"], help="format of the stored images")
    add("--pack-label", action="store_true", help="store all labels of a line, not only the first")
    options = parser.parse_args(arguments)
    if options.chunks < 1 or options.num_thread < 1:
        parser.error(
            f"--chunks and --num-thread must be at least 1, got {options.chunks} and "
            f"{options.num_thread}"
        )
    if not 1 <= options.quality <= 100 and not (options.encoding == ".png" and not options.quality):
        parser.error(f"--quality must be 1 to 100, got {options.quality}")
    if options.resize < 0:
        parser.error(f"--resize must be at least 0, got {options.resize}")
    options.prefix = os.path.abspath(options.prefix)
    options.root = os.path.abspath(options.root)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool."""
    options = _parse(arguments)
    try:
        if options.list:
            make_list(options)
            return 0
        prefix = options.prefix
        folder = prefix if os.path.isdir(prefix) else os.path.dirname(prefix)
        paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        lists = [
            path
            for path in paths
            if path.startswith(prefix) and path.endswith(".lst") and os.path.isfile(path)
        ]
        bad = []
        for path in lists:
            print("Creating .rec file from", path, "in", folder, flush=True)
            bad += make_record(path, options)
    except (OSError, MXNetError) as error:
        print(f"im2rec: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("im2rec: interrupted; the same command continues from here", file=sys.stderr)
        return 130
    if not lists:
        print(f"Did not find and list file with prefix {prefix}")
        return 1
    if bad:
        print(f"im2rec: {len(bad)} images could not be read and were left out:", file=sys.stderr)
        for problem in bad:
            print(f"    {problem}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
