"""The processes of a job: joining the job, process sets, collectives on arrays.

``mx.kv`` and :mod:`mxlite.horovod` are built on this package.
"""
