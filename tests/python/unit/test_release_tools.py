"""Tools of a release: packing, contents, checks, comparison of public names."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "tools" / "release"
pytest.importorskip("wheel.wheelfile", reason="a tool of developers")


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def compiled(folder: Path, name: str, code: str, *options: str) -> Path:
    """Return a shared library made of C code."""
    library = folder / name
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", library, *options]
    subprocess.run(command, input=code, text=True, check=True)
    return library


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("a, b=", "a, b=, c=", ""),
        ("a, b=", "a, *, c=, b=", "positions were a, b"),
        ("a, b=", "a", "no parameter b"),
        ("a", "a, b", "requires b"),
        ("a, b=", "b=, a=", "positions were a, b"),
        ("a, *, b=", "a, **options", ""),
    ],
)
def test_signatures_that_break_calls_are_named(
    tools: Any, old: str, new: str, problem: str
) -> None:
    assert tools("check_api").breaks(old.split(", "), new.split(", ")) == problem


def test_no_public_name_of_the_last_release_is_missing(tools: Any) -> None:
    # Other tests import mxlite as mxnet, which hides the names that 1.9.1 does not have.
    code = "import check_api; print(*check_api.public_api(), sep='\\n')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    names = run.stdout.splitlines()
    found = {line.partition("(")[0] for line in names}
    for name in ("mxlite.ndarray.Convolution", "mxlite.gluon.Trainer.step", "mxlite.numpy.sum"):
        assert name in found
    check_api = tools("check_api")
    bases = sorted((FOLDER / "api").glob("*.txt"))
    assert check_api.differences(bases[-1].read_text().splitlines(), names) == []
    missing = check_api.differences(["mxlite.gone(a)"], names)
    assert missing == ["mxlite.gone: missing"]


def test_packing_twice_gives_the_same_bytes(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    build = tools("build")
    made = []
    for number in range(2):
        folder = tmp_path / f"content{number}"
        (folder / "some-1.0.dist-info").mkdir(parents=True)
        (folder / "some-1.0.dist-info" / "METADATA").write_text("Name: some\n")
        (folder / "code.py").write_text("x = 1\n")
        os.utime(folder / "code.py", (number, number))
        target = tmp_path / f"target{number}"
        target.mkdir()
        made.append(build.pack(folder, "cp312-cp312-linux_x86_64", target))
    assert made[0].name == made[1].name == "some-1.0-cp312-cp312-linux_x86_64.whl"
    assert made[0].read_bytes() == made[1].read_bytes()
    with zipfile.ZipFile(made[0]) as archive:
        assert b"Tag: cp312-cp312-linux_x86_64" in archive.read("some-1.0.dist-info/WHEEL")
        assert b"code.py,sha256=" in archive.read("some-1.0.dist-info/RECORD")


def test_libraries_are_checked(tools: Any, tmp_path: Path) -> None:
    checks = tools("checks")
    code = "int MXVersion(void) { return 1; } int _ZN6mxlite3addEv(void) { return 2; }"
    good = compiled(tmp_path, "good.so", code, "-Wl,-rpath,$ORIGIN")
    assert checks.foreign_symbols(good) == [] and checks.wrong_paths(good) == []
    assert checks.missing_libraries(good, set()) == []
    bad = compiled(
        tmp_path, "bad.so", "int cv_add(void) { return 1; }",
        "-Wl,-rpath,/usr/local/lib", "-Wl,--no-as-needed", good,
    )  # fmt: skip
    assert checks.foreign_symbols(bad) == ["cv_add"]
    assert checks.wrong_paths(bad) == ["/usr/local/lib"]
    assert checks.missing_libraries(bad, set()) == [str(good)]
    assert checks.newest_glibc(Path(sys.executable).resolve()) >= (2, 2)


def test_what_is_bundled_is_listed_with_licences(tools: Any, tmp_path: Path) -> None:
    contents = tools("contents")
    info = tmp_path / "some-1.0.dist-info"
    (info / "licenses").mkdir(parents=True)
    (info / "METADATA").write_text("Name: some\nLicense-File: LICENSE\n\nThe text.\n")
    text = tmp_path / "COPYING"
    text.write_text("You may.\n")
    part = contents.Component("part", "2.1", "MIT", "pkg:deb/debian/part@2.1", [text])
    contents.add_contents(tmp_path, [part])
    bom = json.loads((info / "sboms" / "some.cdx.json").read_text())
    assert bom["bomFormat"] == "CycloneDX" and bom["components"][0]["version"] == "2.1"
    assert bom["components"][0]["licenses"] == [{"expression": "MIT"}]
    assert (info / "licenses" / "bundled" / "part" / "COPYING").read_text() == "You may.\n"
    head, _, body = (info / "METADATA").read_text().partition("\n\n")
    assert head.endswith("\nLicense-File: bundled/part/COPYING") and body == "The text.\n"
    with pytest.raises(SystemExit, match="part has no licence text"):
        contents.add_contents(tmp_path, [part._replace(texts=[])])


def test_absent_pythons_are_named(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreters = tools("interpreters")
    assert set(interpreters.declared_versions()) == set(interpreters.OLDEST_NUMPY)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    found, absent = interpreters.find_interpreters()
    own = "{}.{}".format(*sys.version_info)
    assert [one.version for one in found] == [own]
    assert absent == [v for v in interpreters.declared_versions() if v != own]
    assert [one.version for one in interpreters.select_interpreters([own])] == [own]
    with pytest.raises(SystemExit, match=f"--python must name .* got {absent[0]}, 2.7$"):
        interpreters.select_interpreters([own, absent[0], "2.7"])
