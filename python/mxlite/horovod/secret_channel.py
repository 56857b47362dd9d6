"""Authenticated messages between a process and its children, which share the key of the job.

Each message carries an HMAC-SHA256 of its content, its sequence number and a random number of each
end, so that no other program can send, change, repeat or reorder messages. Messages are not
encrypted.
"""

from __future__ import annotations

import hmac
import secrets
from multiprocessing.connection import Connection

from ..base import MXNetError

_NONCE, _MAC = 32, 32


class ChannelError(MXNetError):
    """The other end does not answer, or does not have the key."""


class Channel:
    """One end of an authenticated connection."""

    def __init__(self, connection: Connection, key: bytes, role: str, seconds: float) -> None:
        self._connection = connection
        self._key = key
        self._seconds = seconds
        self._known = False
        mine = secrets.token_bytes(_NONCE)
        connection.send_bytes(mine)
        theirs = self._next(_NONCE)
        if len(theirs) != _NONCE:
            raise ChannelError(f"number of bytes must be {_NONCE}, got {len(theirs)}")
        caller = role == "caller"
        self._session = mine + theirs if caller else theirs + mine
        self._send_as, self._hear = (b"caller", b"task") if caller else (b"task", b"caller")
        self._sent = self._heard = 0

    def send(self, content: bytes) -> None:
        """Send a message."""
        self._connection.send_bytes(self._mac(self._send_as, self._sent, content) + content)
        self._sent += 1

    def receive(self, limit: int | None = None) -> bytes:
        """Return the next message after checking its MAC.

        Until a first message has proved that the peer has the key, wait at most `seconds`.
        """
        message = self._next(None if limit is None else limit + _MAC)
        content = message[_MAC:]
        expected = self._mac(self._hear, self._heard, content)
        if not hmac.compare_digest(message[:_MAC], expected):
            raise ChannelError("a message must be sealed with the key of the job")
        self._heard += 1
        self._known = True
        return content

    def _next(self, limit: int | None) -> bytes:
        if not self._known and not self._connection.poll(self._seconds):
            raise ChannelError(f"no message within {self._seconds} s")
        return self._connection.recv_bytes(limit)

    def _mac(self, role: bytes, number: int, content: bytes) -> bytes:
        head = role + b":" + number.to_bytes(8, "big") + self._session
        return hmac.new(self._key, head + content, "sha256").digest()
