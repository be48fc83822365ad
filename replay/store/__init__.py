"""Contents that are not in a snapshot: pieces in stores, each under its digest, and stretches of weights."""
