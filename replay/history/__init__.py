"""Results over time: a folder of result files, an index of it, series, change points and baselines."""
