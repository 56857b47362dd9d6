"""Readers of packed files and pickles that trust nothing, and the writer of all saved files."""
