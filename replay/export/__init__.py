"""Export: a snapshot as a program of its own, in C++ or Python, that needs nothing of this package.

`plan` replays the snapshot on a driver that only takes notes (`recording`), so that what is exported is what the engine
would do; the notes are `steps`, and each back end (`cuda`, `python`) writes the same steps in its language.
"""
