"""Prints accuracies and times of a training log: ``python -m mxlite.tools.parse_log``."""

import sys

from mxlite.tools.parse_log import main

sys.exit(main())
