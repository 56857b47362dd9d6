#!/usr/bin/env python3
"""Runs ``python -m mxlite.tools.im2rec`` from the path that MXNet 1.x uses."""

import sys

from mxlite.tools.im2rec import main

if __name__ == "__main__":
    sys.exit(main())
