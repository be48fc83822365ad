"""Round trips: what an application asks of its driver is what a replay asks of its own."""
