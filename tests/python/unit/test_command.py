"""The command ``mxlite`` and its commands."""

from __future__ import annotations

import importlib
from pathlib import Path

import mxlite as mx
import pytest
from mxlite import __main__ as command
from processes import run_python


def test_without_a_command_the_installation_and_the_machine_are_described() -> None:
    secret = {"MXLITE_PS_TOKEN": "secret", "MXLITE_VERBOSE": "passes"}
    text = run_python("-m", "mxlite", environment=secret).stdout
    assert text.startswith(f"mxlite:     {mx.__version__} in {Path(mx.__file__).parent}\n")
    found = dict(line.split(":", 1) for line in text.splitlines())
    names = "Python NumPy system processor GPUs features packages variables commands"
    assert list(found)[1:] == names.split()
    assert "glibc" in found["system"] and "threads per operator" in found["processor"]
    assert "MXLITE_PS_TOKEN=(hidden)" in text and "MXLITE_VERBOSE=passes" in text
    assert "OPENMP" in found["features"] and "secret" not in text


def test_every_tool_has_a_command_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(mx.__file__).parent / "tools"
    tools = {p.stem for p in folder.glob("*.py") if "\nif __name__ ==" in p.read_text()}
    assert tools <= command._COMMANDS.keys()
    assert {"info", "run", "convert", "score"} <= command._COMMANDS.keys()
    assert command.main(["--help"]) == 0
    overview = capsys.readouterr().out
    for name, (module, purpose) in command._COMMANDS.items():
        assert name in overview and purpose in overview
        assert callable(importlib.import_module(module).main)
        if name != "info":
            with pytest.raises(SystemExit) as ended:
                command.main([name, "--help"])
            assert ended.value.code == 0 and "usage:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["im2rek"], "mxlite: there is no command 'im2rek'"),
        (["info", "--all"], "mxlite info: expected no options, got --all"),
    ],
)
def test_a_wrong_command_is_named(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 2
    assert message in capsys.readouterr().err


def test_score_measures_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    words = "score mobilenet0.25 --batch-size 2 --size 32 --passes 2"
    assert command.main(words.split()) == 0
    line = capsys.readouterr().out
    assert line.startswith("mobilenet0.25 on cpu(0), batch size  2, dtype float32, images/sec: ")
    assert float(line.split()[-1]) > 0
    assert command.main(["score", "nothing"]) == 1
    assert "no network 'nothing'" in capsys.readouterr().err
