"""What ``mxlite.tools.launch`` consists of: hosts, plans of jobs, running processes."""
