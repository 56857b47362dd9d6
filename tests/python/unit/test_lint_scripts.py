"""The scripts of ``tools/lint.sh`` that judge imports, launches, commit titles and comments."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"


def script(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_circles_are_found_and_straight_lines_are_not():
    circles = script("check_imports").circles
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"]]
    assert circles({"x": {"z"}, "y": {"x"}, "z": {"y"}, "q": {"x"}}) == [["x", "y", "z"]]


def test_imports_are_distinguished(tmp_path, monkeypatch):
    checks = script("check_imports")
    path = tmp_path / "module.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "from ..base import MXNetError\n"
        "if TYPE_CHECKING:\n"
        "    from ..symbol import Symbol\n"
        "def late():\n"
        "    # Here: it is large.\n"
        "    from . import sparse\n"
        "    import_module('mxlite.gluon')\n"
    )
    monkeypatch.setitem(checks.FILES, "mxlite.ndarray.module", path)
    found = [tuple(entry)[1:] for entry in checks.imports_of("mxlite.ndarray.module")]
    assert found == [
        ("mxlite.base", 2, False, "", False),
        ("mxlite.symbol", 4, False, "", True),
        ("mxlite.ndarray.sparse", 7, True, "# Here: it is large.", False),
        ("mxlite.gluon", 8, True, "", False),
    ]
    assert checks.layer_of("mxlite.contrib.amp.lists") == "contrib.amp"
    assert checks.layer_of("mxlite") == "mxlite"
    loaded = list(checks._loaded("mxlite.gluon.block", "mxlite.ndarray.sparse.storage"))
    assert loaded == ["mxlite.ndarray.sparse.storage", "mxlite.ndarray.sparse", "mxlite.ndarray"]


def test_mixins_of_one_class_are_found():
    found = script("check_imports").lone_mixins
    mixin = "class Half: pass\nclass Base: pass\nclass Whole(Base, Half): pass\nBase()\n"
    assert found([ast.parse(mixin)]) == ["Half"]
    assert found([ast.parse(mixin), ast.parse("class Other(Base, lower.Half): pass")]) == []
    assert found([ast.parse("class Half: pass\nclass Whole(Half): pass\n")]) == []


KERNELS = """
template <class T, class U>
__global__ void wide(int64_t n) {}
__global__ inline void __launch_bounds__(sizeof(int) * 128) bounded(int64_t n) {}
__global__ void __launch_bounds__(kThreads)
    computed(int64_t n) {}
__global__ void plain(int64_t n) {}
"""


@pytest.mark.parametrize(
    ("launches", "kernels"),
    [
        ("launch(ctx, plain, blocks(ctx, n), kThreads, n);", []),
        ("launch(ctx, wide<T, true>, 1, 1, n); launch_items(ctx, plain, n, n);", []),
        ("launch(ctx, wide<T, true>, blocks(ctx, n), 512, n);", ["wide"]),
        ("launch(ctx, double_ ? wide<T, U> : wide<U, T>,\n    1, threads_for(n), n);", ["wide"]),
        ("launch_shared(ctx, bounded, 1, kMost, bytes, n);", []),
        ("launch(ctx, computed, 1, std::min<int64_t>(n, 1024), n);", []),
        # The kernel comes from elsewhere: all that are not launched with kThreads count.
        ("launch(ctx, wide<T, U>, 1, kThreads, n); launch(ctx, fn, 1, most, n);", ["plain"]),
        ("plain<<<blocks(n, m), cuda::kThreads, 0, stream>>>(n);", []),
        ("wide<T, U><<<1, 512>>>(n); plain<<<1, 256>>>(n);", ["wide"]),
        ("config.blockDim = dim3(1024);", ["plain", "wide"]),
        ("config.blockDim = dim3(kThreads);", []),
    ],
)
def test_kernels_of_large_blocks_need_launch_bounds(launches, kernels):
    found = script("check_launches").problems({"a.cu": KERNELS + launches})
    assert [line.split()[1] for line in found] == kernels


def test_a_kernel_is_looked_up_in_its_own_file_first():
    problems = script("check_launches").problems
    launch = "launch(ctx, plain, 1, most, n);"
    own = "__global__ void __launch_bounds__(512) plain(int64_t n) {}\n" + launch
    assert problems({"a.cu": own, "b.cu": KERNELS}) == []
    assert [line.split()[0] for line in problems({"a.cu": launch, "b.cuh": KERNELS})] == ["b.cuh:"]
    unread = "a.cu: a __global__ function that tools/check_launches.py cannot read"
    assert problems({"a.cu": "__global__ auto plain() -> void {}"}) == [unread]


@pytest.mark.parametrize(
    ("title", "reason"),
    [
        ("io: read ahead" + " and on" * 12, "98 characters"),
        ("io: read ahead; fix the tests", "';'"),
        ("read ahead", "no area"),
        ("io: reads ahead", "'reads'"),
        ("io: reading ahead", "'reading'"),
        ("io: the reader goes ahead", "'the'"),
        ("io: read ahead", None),
        ("gluon.data, io: feed workers early", None),
        ("ops/cpu: pass sizes by value", None),
    ],
)
def test_titles(title, reason):
    problems = script("check_titles").problems(title)
    assert problems == [] if reason is None else any(reason in problem for problem in problems)


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("cpp/io/a.h", "// Of the reactor's thread.", "'Of'"),
        ("cpp/io/a.h", "  int rank = -1;  // of the worker", "'of'"),
        ("python/mxlite/a.py", "        Of the argument.", "'Of'"),
        ("python/mxlite/a.py", '    """Is this thread recording?"""', "'Returns whether ...'"),
        ("docs/a.md", "`import mxnet` through the door", "import alias"),
        ("cpp/io/a.cc", "// The memory is somebody else's.", "that is meant"),
        ("cpp/io/a.h", "// Which ranks take part.", "'Which'"),
        ("python/mxlite/a.py", '    """What a stage keeps."""', "'What'"),
        ("docs/a.md", "Servers are told the rate.", "reported"),
        ("cpp/io/a.h", "// Number of threads; 0 means one for each core.", None),
        ("cpp/io/a.h", "  int rank = -1;  // rank of the worker", None),
        ("python/mxlite/a.py", "        Name of the argument.", None),
        ("docs/a.md", "Of 4406 public names 4053 are done.", None),
        ("cpp/io/a.cc", "// Is not called for empty arrays.", None),
    ],
)
def test_comments(name, line, reason):
    problems = script("check_language").problems(name, line)
    assert len(problems) == (reason is not None)
    for problem in problems:
        assert problem.startswith(f"{name}:1:") and reason in problem


def test_a_name_of_two_classes_is_refused():
    checks = script("check_language")
    texts = {"cpp/a/a.h": "class Segment {\n", "cpp/b/b.h": "\nstruct Segment : Base {\n"}
    (problem,) = checks.shared_names(texts)
    assert problem.startswith("cpp/a/a.h:1, cpp/b/b.h:2: Segment names 2 classes")
    texts["cpp/b/b.h"] = "class SharedSegment {\n"
    assert checks.shared_names(texts) == []


def test_a_type_that_two_headers_define_is_refused():
    checks = script("check_language")
    text = "namespace mxlite {\nnamespace io {\n}  // namespace io\nenum class Kind : int { kA };\n"
    texts = {"cpp/a/a.h": text, "cpp/b/b.h": text.replace("int { kA };", "int {\nclass Kind;")}
    (problem,) = checks.doubled_types(texts)
    assert problem.startswith("cpp/a/a.h:4, cpp/b/b.h:4: mxlite::Kind is defined 2 times")
    texts["cpp/b/b.h"] = text.replace("mxlite {", "mxlite::b {")
    assert checks.doubled_types(texts) == []
