"""How long a replay takes: samples, when to stop, clocks, and the figures made of them. METHOD.md says how."""
