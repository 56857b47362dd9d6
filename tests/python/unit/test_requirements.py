"""A machine or Python that mxlite was not built for gets a sentence instead of a crash."""

from __future__ import annotations

from pathlib import Path

import mxlite as mx
import pytest
from mxlite._native import requirements
from processes import run_python

FLAGS = "fpu sse4_2 avx avx2 fma f16c bmi1 bmi2 abm movbe"
# Replaces /proc/cpuinfo before mxlite is imported, and looks at what is loaded afterwards.
IMPORT_ELSEWHERE = """
import sys
from pathlib import Path
read = Path.read_text
Path.read_text = lambda self, *a: {flags!r} if str(self) == "/proc/cpuinfo" else read(self, *a)
try:
    import mxlite
except ImportError as error:
    print(error)
print("libmxlite" in read(Path("/proc/self/maps")), "mxlite._core" in sys.modules)
"""


@pytest.mark.parametrize("missing", ["avx2", "fma", "movbe"])
def test_processors_without_x86_64_v3_are_refused(tmp_path: Path, missing: str) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor : 0\nflags\t\t: {FLAGS}\nbugs : none\n")
    requirements.check_processor(str(cpuinfo))
    cpuinfo.write_text(f"processor : 0\nflags\t\t: {FLAGS.replace(f' {missing}', '')}\n")
    with pytest.raises(ImportError, match=f"must support x86-64-v3 .* got one without {missing}$"):
        requirements.check_processor(str(cpuinfo))


def test_a_refused_processor_loads_no_native_code() -> None:
    old = IMPORT_ELSEWHERE.format(flags="flags\t\t: fpu sse4_2 avx\n")
    first, second = run_python("-c", old).stdout.splitlines()
    assert first.endswith("got one without avx2, fma, f16c, bmi1, bmi2, abm, movbe")
    assert second == "False False"
    new = IMPORT_ELSEWHERE.format(flags=f"flags\t\t: {FLAGS}\n")
    assert run_python("-c", new).stdout == "True True\n"


def test_an_older_c_library_and_another_python_are_named(tmp_path: Path) -> None:
    package = Path(mx.__file__).parent
    loader = ImportError("/lib/libc.so.6: version `GLIBC_9.99' not found (required by _core.so)")
    with pytest.raises(ImportError, match=r"C library must be glibc 9.99 or later, got \d"):
        requirements.explain_failed_import(loader, package)
    absent = ModuleNotFoundError("No module named 'mxlite._core'", name="mxlite._core")
    (tmp_path / "_core.cpython-39-x86_64-linux-gnu.so").touch()
    with pytest.raises(ImportError, match="which _core.cpython-39-.*so was built, got cpython-3"):
        requirements.explain_failed_import(absent, tmp_path)
    requirements.explain_failed_import(ImportError("another reason"), package)


@pytest.mark.skipif(
    (Path(mx.__file__).parent / "libmxlite_cuda.so").exists(), reason="this build has its own"
)
def test_the_cuda_library_is_found_in_a_package_of_its_own(tmp_path: Path) -> None:
    library = tmp_path / "mxlite_cuda13" / "libmxlite_cuda.so"
    library.parent.mkdir()
    library.touch()
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r}); import mxlite as mx; "
        "print(mx._core.cuda_library(), mx.runtime.Features().is_enabled('CUDA'))"
    )
    environment = {"MXLITE_CUDA_LIBRARY": None}
    assert run_python("-c", code, environment=environment).stdout == f"{library} True\n"
    assert mx._core.cuda_library() == "" and not mx.runtime.Features().is_enabled("CUDA")
