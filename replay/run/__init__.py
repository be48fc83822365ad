"""The parent of a replay: it starts confined workers, watches them, and puts their results together."""
