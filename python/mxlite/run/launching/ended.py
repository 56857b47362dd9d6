"""Exit codes of ranks that a signal ends while the other ranks succeed.

Jobs of Open MPI 5 run with ``--enable-recovery``, so that the other ranks can report which rank is
lost. With this option mpirun ends with 0 even if a signal has ended a rank. Therefore a shell
starts each rank and writes the exit code into a folder if a signal ended the rank.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_FOLDER = "MXLITE_RUN_ENDED"
# A shell reports a signal as 128 + its number. The script then ends itself with the same signal,
# which mpirun accepts. On other hosts, on which the folder does not exist, the script waits, so
# that the other ranks can report the loss; then its exit code makes mpirun end them.
_SCRIPT = f"""
"$@"
code=$?
[ $code -gt 128 ] || exit $code
if [ -d "${_FOLDER}" ]; then
  echo $code > "${_FOLDER}/$$"
  kill -$((code - 128)) $$
else
  sleep 15
fi
exit $code
"""


def watched(command: Sequence[str]) -> list[str]:
    """Return a command that runs a rank and stores its exit code if a signal ends the rank."""
    return ["sh", "-c", _SCRIPT, "sh", *command]


class EndedRanks:
    """The folder for exit codes of one job."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def variables(self) -> dict[str, str]:
        """Return the variables that the ranks need."""
        return {_FOLDER: str(self._folder)}

    def code(self, code: int) -> int:
        """Return the code of the first rank that a signal ended, or ``code`` if there is none."""
        files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        codes = [int(text) for text in (file.read_text() for file in files) if text.strip()]
        return codes[0] if codes else code


@contextmanager
def ended_ranks() -> Iterator[EndedRanks]:
    """Create a folder, which is removed when the with block ends."""
    with tempfile.TemporaryDirectory(prefix="mxlite-run-") as folder:
        yield EndedRanks(folder)
