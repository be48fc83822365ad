"""The nightly gate: a folder of snapshots, replayed and compared with what they took before."""
