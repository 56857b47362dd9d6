"""Programs for the command line: ``python -m mxlite.tools.<name>``."""
