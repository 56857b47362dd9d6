"""Rows of embedding tables that a GPU keeps: the tests of the host, on a GPU."""

from __future__ import annotations

from test_sharded_embedding import (  # noqa: F401
    test_a_cache_has_bags_and_several_lookups_in_a_step,
    test_a_cache_on_a_device_gives_the_same_rows,
)
