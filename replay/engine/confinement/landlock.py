"""Landlock, by its system calls: this process opens only the files that it is told. Linux 5.13 and later.

Must obey: rules are by open descriptors of what is there now; a name that appears later has no rule. Threads that exist
already are covered from ABI 8 on.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable

from replay.engine.confinement.files import Opened

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
_ALL_THREADS = 1 << 3  # LANDLOCK_RESTRICT_SELF_TSYNC
_PR_SET_NO_NEW_PRIVS = 38

# LANDLOCK_ACCESS_FS_*
EXECUTE, WRITE_FILE, READ_FILE, READ_DIRECTORY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_FOLDER, REMOVE_FILE, MAKE_FOLDER, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
TRUNCATE, DEVICE_CONTROL = 1 << 14, 1 << 15
# Rights that a rule for a single file may give
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL

# The rights that each ABI can refuse, all of which are refused but for the rules.
_RIGHTS_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_ABI_WITH_NETWORK, _NETWORK = 4, 0b11  # LANDLOCK_ACCESS_NET_BIND_TCP, _CONNECT_TCP
_ABI_WITH_SCOPES, _SCOPES = 6, 0b11  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, _SIGNAL
_ABI_WITH_ALL_THREADS = 8

_RIGHTS = {
    "read": READ_FILE | READ_DIRECTORY,
    "device": READ_FILE | WRITE_FILE | DEVICE_CONTROL,
    "result": READ_FILE | READ_DIRECTORY | WRITE_FILE | TRUNCATE | MAKE_FILE | REMOVE_FILE,
    "program": READ_FILE | READ_DIRECTORY | EXECUTE,
}
_RIGHTS["work"] = _RIGHTS["result"] | MAKE_FOLDER | REMOVE_FOLDER

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("descriptor", ctypes.c_int32)]


def _system_call(number: int, *arguments: object) -> int:
    words = [ctypes.c_size_t(one) if isinstance(one, int) else one for one in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *words))


def abi() -> int:
    """The version of Landlock here; 0 or less where there is none."""
    return _system_call(_CREATE_RULESET, None, 0, _VERSION)


def covers_all_threads() -> bool:
    """Whether threads that exist already are restricted, too."""
    return abi() >= _ABI_WITH_ALL_THREADS


def restrict(files: Iterable[Opened]) -> str:
    """Let this process open nothing but these from now on. Returns why that cannot be, or ""."""
    version = abi()
    if version < 1:
        return f"this kernel, or the container, has no Landlock ({os.strerror(ctypes.get_errno())})"
    rights = _RIGHTS_OF_ABI[max(known for known in _RIGHTS_OF_ABI if known <= version)]
    network = _NETWORK if version >= _ABI_WITH_NETWORK else 0
    scopes = _SCOPES if version >= _ABI_WITH_SCOPES else 0
    size = 24 if scopes else 16 if network else 8
    attributes = _Ruleset(rights, network, scopes)
    ruleset = _system_call(_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    if ruleset < 0:
        return f"Landlock takes no rules ({os.strerror(ctypes.get_errno())})"
    try:
        for one in files:
            _allow(ruleset, one, rights)
        flags = _ALL_THREADS if version >= _ABI_WITH_ALL_THREADS else 0
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if _system_call(_RESTRICT_SELF, ruleset, flags) < 0:
            return f"Landlock was refused ({os.strerror(ctypes.get_errno())})"
    finally:
        os.close(ruleset)
    return ""


def _allow(ruleset: int, one: Opened, handled: int) -> None:
    try:
        descriptor = os.open(one.path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        rights = _RIGHTS[one.use] & handled
        if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
            rights &= _OF_FILES
        rule = _PathBeneath(rights, descriptor)
        if _system_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0) < 0:
            code = ctypes.get_errno()
            if code not in (errno.EBADFD, errno.EINVAL):  # a file of a kind that Landlock never refuses
                raise OSError(code, os.strerror(code), str(one.path))
    finally:
        os.close(descriptor)
