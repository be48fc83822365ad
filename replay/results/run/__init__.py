"""The parts of the result of one replay. `replay.results.schema` puts them together and is where others import them."""
