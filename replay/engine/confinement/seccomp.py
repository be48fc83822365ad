"""A filter of system calls, by seccomp: no program, no network, no other process. Linux 3.17 and later.

Must obey: the filter knows only numbers and plain arguments, never what a pointer points to. `clone3` keeps its flags
after a pointer, so it is said not to exist, after which C libraries take `clone`. Numbers that this table has never
heard of are said not to exist, too, so that a newer kernel adds no way out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator

from replay.records import dataclass


@dataclass(frozen=True)
class Architecture:
    """audit: AUDIT_ARCH_*, as the filter sees it. column: which number of a row of `REFUSED` is its own."""

    audit: int
    column: int


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 0), "aarch64": Architecture(0xC00000B7, 1)}
_NEWEST_KNOWN = 456  # futex_requeue; the numbers from 424 on are the same everywhere
_X32 = 0x40000000  # on x86-64: system calls of another interface, whose numbers the table does not hold

# What is refused with EPERM: why, and (number on x86-64, on aarch64) by name; None: there is none.
REFUSED: dict[str, dict[str, tuple[int | None, int | None]]] = {
    "starts a program": {"execve": (59, 221), "execveat": (322, 281)},
    "makes a process": {"fork": (57, None), "vfork": (58, None)},
    "network": {
        "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
        "accept4": (288, 242),
    },
    "reaches other processes": {
        "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "tkill": (200, 130),
        "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
        "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "process_madvise": (440, 440),
        "process_mrelease": (448, 448), "kcmp": (312, 272), "migrate_pages": (256, 238), "move_pages": (279, 239),
        "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189),
        "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
        "semctl": (66, 191), "mq_open": (240, 180), "mq_unlink": (241, 181), "setpriority": (141, 140),
        "ioprio_set": (251, 30),
    },
    "leaves the parent's hold": {"setpgid": (109, 154), "setsid": (112, 157)},
    "goes round Landlock, or round this filter": {
        "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41), "mount": (165, 40),
        "umount2": (166, 39), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
        "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
        "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    },
    "changes files by their names, which Landlock lets pass": {
        "chmod": (90, None), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
        "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
        "removexattr": (197, 14), "lremovexattr": (198, 15), "utime": (132, None), "utimes": (235, None),
        "futimesat": (261, None), "utimensat": (280, 88),
    },
    "watches files": {
        "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "inotify_init": (253, None),
        "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    },
    "wide parts of the kernel that a replay does not use": {
        "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
        "add_key": (248, 217), "request_key": (249, 218), "modify_ldt": (154, None), "uselib": (134, None),
        "personality": (135, 92), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
    },
    "is the administrator's": {
        "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
        "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
        "sethostname": (170, 161), "setdomainname": (171, 162), "acct": (163, 89), "quotactl": (179, 60),
        "quotactl_fd": (443, 443), "iopl": (172, None), "ioperm": (173, None), "settimeofday": (164, 170),
        "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "syslog": (103, 116),
        "vhangup": (153, 58), "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145),
        "setregid": (114, 143), "setresuid": (117, 147), "setresgid": (119, 149), "setgroups": (116, 159),
        "setfsuid": (122, 151), "setfsgid": (123, 152), "capset": (126, 91),
    },
}  # fmt: skip

_CLONE, _CLONE3, _KILL, _TGKILL, _PRCTL, _PRLIMIT = (
    (56, 220),
    435,
    (62, 129),
    (234, 131),
    (157, 167),
    (302, 261),
)
# By their second argument: these make the kernel send a signal of the caller's choice to another process.
_SIGNAL_OTHERS = {
    (72, 25): (8, 10, 15),  # fcntl: F_SETOWN, F_SETSIG, F_SETOWN_EX
    (16, 29): (0x8901, 0x8902),  # ioctl: FIOSETOWN, SIOCSPGRP
}
_CLONE_THREAD = 0x10000
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38

# BPF instructions: code, and the fields of struct seccomp_data
_LOAD, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_REFUSE, _ABSENT = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS

_SET_MODE_FILTER = 1
_ALL_THREADS, _KEEP_SPECULATION = 1 << 0, 1 << 2  # SECCOMP_FILTER_FLAG_TSYNC, _SPEC_ALLOW
_SECCOMP = (317, 277)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.c_char_p)]


OF_PROGRAMS = ("starts a program", "makes a process")  # what `programs` lets pass


def program(architecture: Architecture, process_id: int, programs: bool = False) -> bytes:
    """The filter, as the kernel takes it. process_id: the process that may signal itself. programs: it may start
    others, which have the same filter."""
    return b"".join(_instructions(architecture, process_id, programs))


def _instructions(architecture: Architecture, process_id: int, programs: bool) -> Iterator[bytes]:
    def one(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
        return struct.pack("<HBBI", code, true, false, value)

    column = architecture.column
    yield one(_LOAD, _ARCHITECTURE)
    yield one(_EQUAL, architecture.audit, true=1)
    yield one(_RETURN, _REFUSE)
    yield one(_LOAD, _NUMBER)
    yield one(_AT_LEAST, _X32, false=1)
    yield one(_RETURN, _REFUSE)
    yield one(_GREATER, _NEWEST_KNOWN, false=1)
    yield one(_RETURN, _ABSENT)
    yield one(_EQUAL, _CLONE3, false=1)
    yield one(_RETURN, _ABSENT)
    refused = (rows for why, rows in REFUSED.items() if not (programs and why in OF_PROGRAMS))
    for numbers in (row for rows in refused for row in rows.values()):
        number = numbers[column]
        if number is not None:
            yield one(_EQUAL, number, false=1)
            yield one(_RETURN, _REFUSE)
    # Those that depend on an argument: each loads it, judges and ends.
    for row, commands in _SIGNAL_OTHERS.items():
        yield from (one(_EQUAL, row[column], false=2 * len(commands) + 2), one(_LOAD, _SECOND_ARGUMENT))
        for command in commands:
            yield from (one(_EQUAL, command, false=1), one(_RETURN, _REFUSE))
        yield one(_RETURN, _ALLOW)
    if not programs:
        yield from (one(_EQUAL, _CLONE[column], false=4), one(_LOAD, _FIRST_ARGUMENT),
                    one(_ANY_BIT, _CLONE_THREAD, true=1), one(_RETURN, _REFUSE), one(_RETURN, _ALLOW))  # fmt: skip
    for number in (_KILL[column], _TGKILL[column]):
        yield from (one(_EQUAL, number, false=4), one(_LOAD, _FIRST_ARGUMENT),
                    one(_EQUAL, process_id, true=1), one(_RETURN, _REFUSE), one(_RETURN, _ALLOW))  # fmt: skip
    yield from (one(_EQUAL, _PRCTL[column], false=4), one(_LOAD, _FIRST_ARGUMENT),
                one(_EQUAL, _PR_SET_PDEATHSIG, false=1), one(_RETURN, _REFUSE), one(_RETURN, _ALLOW))  # fmt: skip
    yield from (one(_EQUAL, _PRLIMIT[column], false=5), one(_LOAD, _FIRST_ARGUMENT),
                one(_EQUAL, 0, true=2), one(_EQUAL, process_id, true=1),
                one(_RETURN, _REFUSE), one(_RETURN, _ALLOW))  # fmt: skip
    yield one(_RETURN, _ALLOW)


def restrict(process_id: int, programs: bool = False) -> str:
    """Filter the system calls of all threads of this process from now on. programs: it may start others. Returns why
    that cannot be, or ""."""
    machine = os.uname().machine
    architecture = ARCHITECTURES.get(machine)
    if architecture is None:
        return f"no filter of system calls is known for {machine}"
    code = program(architecture, process_id, programs)
    filter_ = _Program(len(code) // 8, code)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = _libc.syscall(
        ctypes.c_long(_SECCOMP[architecture.column]),
        ctypes.c_size_t(_SET_MODE_FILTER),
        ctypes.c_size_t(_ALL_THREADS | _KEEP_SPECULATION),
        ctypes.byref(filter_),
    )
    if done > 0:
        return f"thread {done} has a filter of its own"
    return "" if done == 0 else f"seccomp was refused ({os.strerror(ctypes.get_errno())})"
