"""tools/run_pages.py runs tutorials and pages, and names the block that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import run_python

TOOL = Path(__file__).resolve().parents[3] / "tools" / "run_pages.py"

TUTORIAL = """# Title

```{code-cell} ipython3
:tags: [hide-input]

value = 20
```

```{code-cell} ipython3
print("value", value + 1)
```
"""
PAGE = """```python
open("file", "w").write("text")
```

```sh
cat file
```

<!-- not run: needs a cluster -->
```sh
exit 3
```

```text
exit 4
```
"""


def run(folder, text, ok=True):
    """Run a page, and return what was printed and the exit status."""
    page = folder / "page.md"
    page.write_text(text)
    done = run_python(TOOL, page, ok=ok)
    return done.stdout + done.stderr, done.returncode


def test_cells_share_their_names(tmp_path):
    pytest.importorskip("IPython")
    output, _ = run(tmp_path, TUTORIAL)
    assert "value 21" in output


def test_a_failing_cell_is_named(tmp_path):
    pytest.importorskip("IPython")
    output, status = run(tmp_path, TUTORIAL.replace("value + 1", "missing"), ok=False)
    assert status == 1
    assert "page.md:10: this cell raised NameError" in output
    output, status = run(tmp_path, TUTORIAL.replace("value + 1", "value +"), ok=False)
    assert status == 1
    assert "page.md:10: this cell raised SyntaxError" in output


def test_blocks_of_a_page_share_a_folder(tmp_path):
    output, _ = run(tmp_path, PAGE)
    assert "text" in output
    assert "page.md:11: not run: needs a cluster" in output
    output, status = run(tmp_path, PAGE.replace("cat file", "cat other"), ok=False)
    assert status == 1
    assert "page.md:6: FAILED" in output
