"""DLPerf's comparison: the same models, batches and tables, with all systems in turns."""
