"""Converts files of weights: ``python -m mxlite.convert IN OUT``; --help lists formats and maps."""
