from mxlite.horovod import *
