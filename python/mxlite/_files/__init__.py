"""Safe readers of packed files and pickles, and the writer of all saved files."""
