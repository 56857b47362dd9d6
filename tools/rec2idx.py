#!/usr/bin/env python3
"""Runs ``python -m mxlite.tools.rec2idx`` from the path that MXNet 1.x uses."""

import sys

from mxlite.tools.rec2idx import main

if __name__ == "__main__":
    sys.exit(main())
