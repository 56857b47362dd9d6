"""Names by which errors know exchanges between ranks."""

from __future__ import annotations

from types import SimpleNamespace

import mxlite as mx
import pytest
from mxlite.comm import groups


def test_an_exchange_is_named_by_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []

    def submit(kind: str, given: list[str], rows: list[mx.nd.NDArray], *args, **options):
        names.extend(given)
        return rows

    monkeypatch.setattr(groups, "submit", submit)
    monkeypatch.setattr(groups, "waited", lambda pending, rows, ctx: rows)
    group = SimpleNamespace(number=77, ranks=[0, 2], size=2, index=0)
    for _ in range(2):
        assert groups.exchange_texts(group, "lr", "Trainer.step") == ["lr"]
    assert [name.rsplit(" ", 1)[0] for name in names] == [
        "exchange of settings between ranks 0, 2, number"
    ] * 2
    assert len(set(names)) == 2
    assert groups.ranks_text([4]) == "rank 4"
