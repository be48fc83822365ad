"""`--level noise`: other values where nothing decides."""
