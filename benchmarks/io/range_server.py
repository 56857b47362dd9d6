"""An HTTP server that answers ranges of a folder's files, at a limited rate and with faults.

    python benchmarks/io/range_server.py FOLDER --rate 200

prints its address and serves until its standard input ends.
"""

from __future__ import annotations

import argparse
import http.server
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

_PIECE = 1 << 18


class Pace:
    """Lets all connections together send a number of bytes per second."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._free = 0.0  # time at which the earlier bytes are sent

    def wait(self, count: int) -> None:
        """Wait until this many more bytes may be sent."""
        with self._lock:
            self._free = max(self._free, time.monotonic()) + count / self._rate
            pause = self._free - time.monotonic()
        if pause > 0:
            time.sleep(pause)


class RangeServer(http.server.ThreadingHTTPServer):
    """Serves the files of a folder on a port of this host.

    Parameters
    ----------
    folder : Path
    rate : float
        Bytes per second of all connections together.

    Attributes
    ----------
    ranges : list of (str, int, int)
        Name, begin and end of each range that was requested.
    fault : callable, optional
        Called with the range's number before it is sent; returns how many of its bytes are sent
        before the connection is closed, or None to send all.
    with_ranges : bool
        If False, whole files are sent, as by Python's own server.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path, rate: float = float("inf")) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.pace = Pace(rate)
        self.ranges: list[tuple[str, int, int]] = []
        self.fault: Callable[[int], int | None] | None = None
        self.with_ranges = True

    @property
    def address(self) -> str:
        """The address of the folder."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close their connections."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RangeServer

    def do_HEAD(self) -> None:  # noqa: N802
        """Answer with the size and the version of a file."""
        path = self.server.folder / self.path.lstrip("/")
        if not path.is_file():
            return self._head(404, 0)
        status = path.stat()
        self._head(200, status.st_size, ETag=f'"{status.st_mtime_ns}-{status.st_size}"')

    def do_GET(self) -> None:  # noqa: N802
        """Answer with a range of a file."""
        path = self.server.folder / self.path.lstrip("/")
        if not path.is_file():
            return self._head(404, 0)
        begin, end = 0, path.stat().st_size
        status, fields = 200, {}
        wanted = self.headers.get("Range")
        if wanted and self.server.with_ranges:
            first, _, last = wanted[len("bytes=") :].partition("-")
            fields["Content-Range"] = f"bytes {first}-{last}/{end}"
            status, begin, end = 206, int(first), min(int(last) + 1, end)
        number = len(self.server.ranges)
        self.server.ranges.append((path.name, begin, end))
        most = self.server.fault(number) if self.server.fault else None
        self._head(status, end - begin, **fields)
        with open(path, "rb") as stream:
            stream.seek(begin)
            left = end - begin if most is None else min(most, end - begin)
            while left > 0:
                piece = stream.read(min(_PIECE, left))
                self.server.pace.wait(len(piece))
                self.wfile.write(piece)
                left -= len(piece)
        if most is not None:
            self.close_connection = True

    def _head(self, status: int, size: int, **fields: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(size))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", type=float, default=200, help="MB per second: %(default)s")
    options = parser.parse_args()
    server = RangeServer(options.folder, options.rate * 1e6)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
