"""tools/gpu: time limits of steps, compiling _core, and the files of results."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[3]
KIT = ROOT / "tools/gpu"


def prepare(folder: Path, second: str = "exit 1") -> dict[str, str]:
    """Copy all.sh beside three steps that say their seconds; return its environment."""
    for name in ("all.sh", "summary.py", "failures.py", "expected.py"):
        shutil.copy(KIT / name, folder)
    for name in ("1_first", "2_second", "3_third"):
        last = second if name == "2_second" else "exit 0"
        (folder / f"{name}.sh").write_text(f"echo {name} has $STEP_SECONDS\n{last}\n")
    return {
        **os.environ,
        "MXLITE_GPU_DIR": str(folder / "kit"),
        "OUT": str(folder / "out"),
        "PYTHON": sys.executable,
    }


def run_all(folder: Path, *arguments: str, second: str = "exit 1") -> Any:
    """Run all.sh with three steps, of which the second one fails."""
    environment = prepare(folder, second)
    command = ["bash", str(folder / "all.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_steps_share_the_seconds_and_go_on_after_a_failure(tmp_path: Path) -> None:
    done = run_all(tmp_path, "120", "1_first:1", "2_second:3", "3_third:6")
    assert done.returncode == 1
    seconds = [int(line.split()[-1]) for line in done.stdout.splitlines() if " has " in line]
    # 20 of the 120 s are kept, and what a step does not use goes to the others.
    assert len(seconds) == 3
    for found, expected in zip(seconds, (10, 33, 100)):
        assert expected - 3 <= found <= expected
    assert "failed: 2_second" in done.stdout


def test_steps_that_are_cut_short_have_not_failed(tmp_path: Path) -> None:
    done = run_all(tmp_path, "100", "1_first:1", "2_second:1", "3_third:1", second="exit 3")
    assert done.returncode == 3
    assert "cut short: 2_second" in done.stdout
    assert "failed" not in done.stdout


def test_steps_without_time_are_named_and_none_run_where_the_kit_is_broken(tmp_path: Path) -> None:
    done = run_all(tmp_path, "35", "1_first:1", "3_third:1")
    assert done.returncode == 3
    assert "cut short: 1_first" in done.stdout
    assert "3_third has" in done.stdout  # the first one has left its time
    done = run_all(tmp_path, "100", "2_second:1", "3_third:1", second="exit 2")
    assert done.returncode == 2
    assert "3_third has" not in done.stdout


REPORT = """
import json, os, sys
from pathlib import Path
results = Path(os.environ["RESULTS"])
part = {"name": "table", "exit_status": int(sys.argv[1]), "seconds": 9}
(results / "2_second.json").write_text(json.dumps(
    {"step": "2_second", "device": {"name": "H200"}, "seconds": 9, "parts": [part]}))
(results / "2_second.log").write_text("a log")
(results / "2_second.table.xml").write_text(sys.argv[2])
cache = Path(os.environ["MXLITE_GPU_DIR"]) / "cache"
cache.mkdir(parents=True, exist_ok=True)
(cache / "cudnn-9-H200.plans").write_text("mxlite plans 2")
"""
FAILED = """<testsuite>
<testcase classname="tests.python.gpu.test_x" name="test_a[1]"><failure message="3.5 differs"/>
</testcase>
<testcase classname="tests.python.gpu.test_x" name="test_b"><failure message="4.5 differs"/>
</testcase>
<testcase classname="tests.python.gpu.test_x" name="test_c"/>
</testsuite>"""


@pytest.mark.parametrize(
    ("status", "junit", "next_call"),
    [("1", FAILED, "red:1"), ("0", "<testsuite/>", "green:1"), ("124", "<testsuite/>", "green:1")],
)
def test_a_summary_and_an_archive_come_back(
    status: str, junit: str, next_call: str, tmp_path: Path
) -> None:
    (tmp_path / "report.py").write_text(REPORT)
    second = f"{sys.executable} {tmp_path}/report.py {status} '{junit}'"
    run_all(tmp_path, "100", "2_second:1", second=second)
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["results.tar.xz", "summary.txt"]
    with tarfile.open(out / "results.tar.xz") as archive:
        names = {name[2:] for name in archive.getnames() if name != "."}
    assert names >= {"2_second.json", "2_second.log", "cache/cudnn-9-H200.plans"}
    text = (out / "summary.txt").read_text()
    assert text.splitlines()[-1].endswith(next_call)
    if junit == FAILED:  # messages that differ only in numbers are one group
        assert "2 failed like tests/python/gpu/test_x.py::test_a[1]" in text
        assert "3.5 differs" in text
    assert ("cut short, so" in text) == (status == "124")


def test_results_come_back_from_a_run_that_is_ended(tmp_path: Path) -> None:
    environment = prepare(tmp_path, second="sleep 60")
    command = ["bash", str(tmp_path / "all.sh"), "100", "2_second:1"]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout
    while "has" not in running.stdout.readline():
        pass
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=30)
    assert (tmp_path / "out/results.tar.xz").exists()
    assert "no step has run" in (tmp_path / "out/summary.txt").read_text()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    for arguments, text in (
        ((), "seconds expected"),
        (("ten",), "seconds expected"),
        (("100", "9_none:1"), "no step 9_none"),
        (("100", "1_first"), "must be STEP:SHARE"),
        (("100", "1_first:0"), "must be STEP:SHARE"),
    ):
        done = run_all(tmp_path, *arguments)
        assert done.returncode == 2
        assert text in done.stderr


COMPILER = """#!/bin/sh
echo "$*" >>calls
case "$*" in *broken*) [ -e mended ] || { echo "no such thing" >&2; exit 1; } ;; esac
while [ "$1" != -o ]; do shift; done
echo made >"$2"
"""


def test_a_compilation_of_core_continues(tmp_path: Path) -> None:
    sources, package = tmp_path / "cpp/python", tmp_path / "kit/python/mxlite"
    for folder in (sources, package):
        folder.mkdir(parents=True)
    for name in ("array", "broken", "gil"):
        (sources / f"{name}.cc").write_text("")
    tools = tmp_path / "tools"  # without a compiler cache
    tools.mkdir()
    for name in ("sh", "touch"):
        (tools / name).symlink_to(shutil.which(name) or name)
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    command = [sys.executable, str(KIT / "compile_core.py"), ".", "kit/python/mxlite", "include"]
    command.append("objects")

    def run() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "CXX": str(compiler), "PATH": str(tools)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    first = run()
    assert first.returncode == 1
    assert "no such thing" in first.stderr
    (tmp_path / "mended").touch()
    assert run().returncode == 0
    assert [path.suffix for path in package.glob("_core*")] == [".so"]
    compiled = [c for c in (tmp_path / "calls").read_text().splitlines() if " -c " in c]
    assert sum("broken" in call for call in compiled) == 2
    assert len(compiled) == 4  # the other two were compiled once


CORE = """
#include <Python.h>

static PyModuleDef core = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, nullptr};

PyMODINIT_FUNC PyInit__core() {
  PyObject* const module = PyModule_Create(&core);
  PyModule_AddIntConstant(module, "hexversion", PY_VERSION_HEX);
  return module;
}
"""
# Replaces the build of the libraries by empty ones. pack.sh has no _core for this Python then, too.
NINJA = """#!/bin/sh -e
mkdir -p build/gpu_stand_in/mxlite build/gpu_stand_in/tests
for library in mxlite/libmxlite mxlite/_core.none tests/libmxlite_fake_gpu; do
  g++ -shared -x c++ /dev/null -o build/gpu_stand_in/$library.so
done
"""
# Installs nothing from the network.
PYTHON = f"""#!/bin/sh
case "$*" in "-m pip "*) exit 0 ;; esac
exec {sys.executable} "$@"
"""
SLOW_COMPILER = """#!/bin/sh
sleep 2
exec g++ "$@"
"""


def interpreter_with_headers(version: str) -> str | None:
    """Return a Python of this version that can compile extension modules."""
    installed = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    program = "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_path('include'))"
    for path in filter(None, [shutil.which(f"python{version}"), *map(str, installed)]):
        command = [path, "-c", program]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        *numbers, include = text.split() or [""]
        if ".".join(numbers) == version and Path(include, "Python.h").exists():
            return command[0]
    return None


def pack(root: Path, versions: str) -> dict[str, str]:
    """Pack a kit with a small _core in a checkout at root; return the environment."""
    for tool in ("g++", "patchelf", "strip", "xz"):
        if not shutil.which(tool):
            pytest.skip(f"there is no {tool}")
    pytest.importorskip("pybind11")
    shutil.copytree(KIT, root / "tools/gpu", ignore=shutil.ignore_patterns("__pycache__"))
    texts = {"core.cc": CORE, "gil.cc": "", "vectorcall.h": ""}
    files = {f"cpp/python/{name}": text for name, text in texts.items()}
    files |= {"bin/cmake": "#!/bin/sh\n", "bin/ninja": NINJA, "bin/python": PYTHON}
    files |= {"bin/slow": SLOW_COMPILER, "python/mxlite/__init__.py": ""}
    files["cmake/libmxlite.map"] = (ROOT / "cmake/libmxlite.map").read_text()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}", "VERSIONS": versions}
    command = ["bash", "tools/gpu/pack.sh", "--stand-in"]
    subprocess.run(command, cwd=root, env=environment, check=True, timeout=120)
    return environment


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_kit_holds_core_for_a_version_of_python(version: str, tmp_path: Path) -> None:
    interpreter = interpreter_with_headers(version)
    if interpreter is None:
        pytest.skip(f"there is no Python {version} with headers")
    pack(tmp_path, f"{version} 3.99")
    with tarfile.open(tmp_path / "build/gpu_kit/kit.tar.xz") as archive:
        names = {name for name in archive.getnames() if "/core/" in name}
        archive.extractall(tmp_path / "kit")
    suffix = f"cpython-{version.replace('.', '')}"
    assert any(name.startswith(f"./core/_core.{suffix}") for name in names), names
    assert len(names) == 2  # the other one is of the replaced build
    shutil.copy(tmp_path / "kit/mxlite/libmxlite.so", tmp_path / "kit/core")
    program = "import sys, _core; assert _core.hexversion == sys.hexversion"
    command = [interpreter, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "kit/core")}
    subprocess.run(command, env=environment, check=True)


def test_the_seconds_of_a_step_begin_after_core_is_compiled(tmp_path: Path) -> None:
    if interpreter_with_headers(f"{sys.version_info[0]}.{sys.version_info[1]}") is None:
        pytest.skip("this Python has no headers")
    environment = pack(tmp_path, "")
    (tmp_path / "tools/gpu/1_smoke.sh").write_text(
        '. "$(dirname "$0")/boot.sh"\npart quick 5 true\nfinish\n'
    )
    # Compiling and linking take at least 4 s, and no part begins in the last 5 s.
    environment |= {"STEP_SECONDS": "8", "CXX": "bin/slow", "MXLITE_GPU_DIR": f"{tmp_path}/kit"}
    environment |= {"PYTHON": sys.executable, "RESULTS": f"{tmp_path}/results"}
    command = ["bash", "tools/gpu/1_smoke.sh"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=120)
    report = json.loads((tmp_path / "results/1_smoke.json").read_text())
    assert [(part["name"], part["exit_status"]) for part in report["parts"]] == [("quick", 0)]


def test_a_run_that_is_ended_writes_its_junit_file(tmp_path: Path) -> None:
    """Parts that boot.sh cuts short have results: the conftest of the GPU's tests sees to it."""
    source = (ROOT / "tests/python/gpu/conftest.py").read_text()
    begin, end = source.index("def interrupt("), source.index("def pytest_collection_modifyitems")
    (tmp_path / "conftest.py").write_text(f"import signal, threading\n\n{source[begin:end]}")
    (tmp_path / "test_slow.py").write_text(
        "import os, signal, time\n"
        "def test_fast(): pass\n"
        "def test_ended():\n"
        "    for _ in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(60)\n"
        "def test_later(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--junitxml", "junit.xml", "."], cwd=tmp_path, timeout=50, check=False
    )
    assert done.returncode == 2  # interrupted
    cases = ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    assert "test_fast" in {case.get("name") for case in cases}


def test_a_step_reports_the_figures_of_parts_that_were_cut_short(tmp_path: Path) -> None:
    (tmp_path / ".4_x.parts").write_text("profile\t124\t9\ntable\t137\t3\n")
    (tmp_path / ".4_x.profile.json").write_text('{"first_loss": 7.5}')
    (tmp_path / ".4_x.table.json").write_text('[{"name"')  # ended while it wrote
    command = [sys.executable, str(KIT / "finish.py"), "4_x", str(tmp_path), "12"]
    subprocess.run(command, check=True)
    profile, table = json.loads((tmp_path / "4_x.json").read_text())["parts"]
    figures = {"first_loss": 7.5}
    assert profile == {"name": "profile", "exit_status": 124, "seconds": 9, "figures": figures}
    assert "figures" not in table and table["figures_error"]
    assert [path.name for path in tmp_path.glob(".4_x.*.json")] == [".4_x.table.json"]


def test_the_smoke_lines_go_on_after_a_failure_a_crash_and_a_broken_gpu(tmp_path: Path) -> None:
    """The test replaces the primitives of smoke.py by its own."""
    program = tmp_path / "smoke.py"
    source = (KIT / "smoke.py").read_text()
    begin, end = source.index('@primitive("memory'), source.index("def compare(")
    own = """
class DeviceError(Exception): pass

@primitive("good")
def _good(): return [(np.ones(3), np.ones(3))], 0
@primitive("different")
def _different(): return [(np.ones(3), np.zeros(3) + 2)], 0.25
@primitive("raises")
def _raises(): raise ValueError("wrong\\nvalue")
@primitive("ends")
def _ends(): os._exit(9)
@primitive("breaks")
def _breaks(): raise DeviceError("illegal address")
@primitive("not finite")
def _nan(): return [(np.array([np.nan, 1]), np.ones(2))], 1
@primitive("last")
def _last(): return "reported"

"""
    program.write_text(source[:begin] + own.replace("\\\\", "\\") + source[end:])
    command = [sys.executable, str(program), "--json", str(tmp_path / "lines.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    lines = json.loads((tmp_path / "lines.json").read_text())
    found = {line["name"]: (line["status"], line["message"]) for line in lines}
    assert found == {
        "good": ("ok", "difference 0, limit 0"),
        "different": ("FAILED", "difference 0.5, limit 0.25"),
        "raises": ("FAILED", "ValueError: wrong value"),
        "ends": ("CRASHED", "the process ended, exit status 9"),
        "breaks": ("FAILED", "DeviceError: illegal address"),
        "not finite": ("FAILED", "1 of 2 numbers not finite"),
        "last": ("ok", "reported"),
    }
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        line["status"] for line in lines
    ]
