"""Parts of ``mxlite.tools.launch``: hosts, plans of jobs, running processes."""
