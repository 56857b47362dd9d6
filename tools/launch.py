#!/usr/bin/env python3
"""MXNet 1.x's place of ``python -m mxlite.tools.launch``."""

import sys

from mxlite.tools.launch import main

if __name__ == "__main__":
    sys.exit(main())
