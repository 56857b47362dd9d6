#!/usr/bin/env python3
"""MXNet 1.x's place of ``python -m mxlite.tools.im2rec``."""

import sys

from mxlite.tools.im2rec import main

if __name__ == "__main__":
    sys.exit(main())
