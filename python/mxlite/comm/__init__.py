"""The processes of a job: joining it, sets of processes, arrays handed to collective operations.

``mx.kv`` and :mod:`mxlite.horovod` stand on it.
"""
