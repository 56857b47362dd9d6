"""A logger that prints its level as one letter (MXNet 1.x: ``mxnet.log``)."""

from __future__ import annotations

import logging
import sys
from typing import Any

__all__ = [
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "INFO",
    "NOTSET",
    "WARNING",
    "getLogger",
    "get_logger",
]

CRITICAL = logging.CRITICAL
ERROR = logging.ERROR
WARNING = logging.WARNING
INFO = logging.INFO
DEBUG = logging.DEBUG
NOTSET = logging.NOTSET

_RED, _GREEN, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[0m"


class _Formatter(logging.Formatter):
    """``I1121 06:42:28 23820 file:function:17] text``, with a colored header on a terminal."""

    def __init__(self, colored: bool) -> None:
        super().__init__(datefmt="%m%d %H:%M:%S")
        self._colored = colored

    def format(self, record: logging.LogRecord) -> str:
        letter = "U" if record.levelno == NOTSET else record.levelname[0]
        head = f"{letter}%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]"
        if self._colored:
            color = _RED if record.levelno >= WARNING else _GREEN
            head = f"{color}{head}{_PLAIN}"
        self._style._fmt = head + " %(message)s"
        return super().format(record)


def get_logger(
    name: str | None = None,
    filename: str | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """Return a logger with a handler for a file or stderr.

    Parameters
    ----------
    name : str, optional
        None is the root logger, which gets no handler.
    filename : str, optional
        File to which the log is written, without color.
    filemode : str, optional
        ``"a"`` by default.
    level : int
        Set when the handler is made.
    """
    logger: Any = logging.getLogger(name)
    if name is not None and not getattr(logger, "_mxlite_handler", False):
        logger._mxlite_handler = True
        handler: logging.Handler
        if filename:
            handler = logging.FileHandler(filename, filemode or "a")
            handler.setFormatter(_Formatter(colored=False))
        else:
            handler = logging.StreamHandler()
            handler.setFormatter(_Formatter(colored=sys.stderr.isatty()))
        logger.addHandler(handler)
        logger.setLevel(level)
    found: logging.Logger = logger
    return found


def getLogger(  # noqa: N802 - the older name of 1.x
    name: str | None = None,
    filename: str | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """Return the result of :func:`get_logger` for the same arguments."""
    return get_logger(name, filename, filemode, level)
