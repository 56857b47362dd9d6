"""Networks of the scoring benchmark, and its table and plot."""
