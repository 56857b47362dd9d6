#!/usr/bin/env python3
"""MXNet 1.x's place of ``python -m mxlite.tools.rec2idx``."""

import sys

from mxlite.tools.rec2idx import main

if __name__ == "__main__":
    sys.exit(main())
