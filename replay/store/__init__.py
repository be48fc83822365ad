"""Contents that are not in a snapshot: pieces in stores, each under its digest, and stretches of files of weights."""

from replay.store.elsewhere import Elsewhere

__all__ = ["Elsewhere"]
