"""The nightly gate: a folder of snapshots, replayed and held against what they took before."""
