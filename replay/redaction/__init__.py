"""`replay redact`: a snapshot that may be passed on, and the proof that it still does the same. docs/redact.md"""
