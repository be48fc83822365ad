"""The folder that all who work on a night share: one of this machine's file systems, or a URL of fsspec's."""
