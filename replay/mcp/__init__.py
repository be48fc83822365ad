"""Tools for agents over the Model Context Protocol: snapshots and results in one folder. `docs/mcp.md`."""
