"""Reads a raw capture (FORMAT.md): the records that the interposer wrote, and the bytes that they refer to."""
