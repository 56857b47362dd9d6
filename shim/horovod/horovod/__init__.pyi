from mxlite.horovod import run as run

__version__: str
