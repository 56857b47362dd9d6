"""Predict which films people rate with 4 or 5 of 5; compare with scikit-learn.

    pip download --no-deps recbole==1.2.1
    python movielens.py --data recbole-1.2.1-py3-none-any.whl --out data/movielens --iterations 600

The 100,000 ratings of MovieLens-100K are in a file of the package `recbole`; GroupLens allows
research with them, but no redistribution. A tenth of the ratings, chosen by a hash of user and
film, is for the test. Options that are not known here go to train.py. The curve is printed in the
form of DLPerf's evaluation lines, and the baseline at the end.
"""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compare import Row, main

GOOD = 4  # the best rating is 5
GENRES = ("genre1", "genre2", "genre3")
CATEGORIES = ("user_id", "item_id", "gender", "occupation", "region", *GENRES)
NUMBERS = ("age", "release_year", "timestamp")
CROSSES = "occupation:genre1,gender:item_id,region:genre1"


def read_table(source: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of a table in a wheel or a folder, by column names without types."""
    if source.is_dir():
        text = (source / f"ml-100k.{name}").read_text()
    else:
        with zipfile.ZipFile(source) as archive:
            found = [path for path in archive.namelist() if path.endswith(f"/ml-100k.{name}")]
            if not found:
                raise SystemExit(f"wide_deep: {source} has no ml-100k.{name}")
            text = archive.read(found[0]).decode()
    header, *lines = csv.reader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    names = [column.partition(":")[0] for column in header]
    return [dict(zip(names, line)) for line in lines]


def read(source: Path) -> Iterator[tuple[bool, Row]]:
    """Yield ratings with their user and film, and whether they are test rows."""
    users = {row["user_id"]: row for row in read_table(source, "user")}
    films = {row["item_id"]: row for row in read_table(source, "item")}
    for rating in read_table(source, "inter"):
        user, film = rating["user_id"], rating["item_id"]
        genres = [*films[film]["class"].split(), "", "", ""]
        values: dict[str, Any] = {
            **rating,
            **users[user],
            **films[film],
            **dict(zip(GENRES, genres)),
            "label": int(float(rating["rating"]) >= GOOD),
            "region": users[user]["zip_code"][:2],
        }
        year = values["release_year"]
        values["release_year"] = year if year.isdecimal() else ""
        yield zlib.crc32(f"{user} {film}".encode()) % 10 == 0, values


if __name__ == "__main__":
    small = ("--batch", "1024", "--hidden", "64", "--layers", "2", "--dim", "8")
    raise SystemExit(main(__doc__.splitlines()[0], read, NUMBERS, CATEGORIES, CROSSES, small))
