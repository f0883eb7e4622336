"""The filter of system calls of a confined process, as classic BPF.

It lists refused calls. Calls newer than this list fail with ENOSYS, so that a newer kernel allows nothing more. Flags
are checked where they matter: new namespaces, kinds of sockets.

No file gets the set-user-ID bit, and no new one the set-group-ID bit: programs outside would run with its owner's
identity. Directories need the latter, and ``chmod`` does not show what it is for.

A pair of datagram sockets is refused, too: one end of it can send to any socket that has a name.
"""

import errno
import functools
import os
import struct
from collections.abc import Sequence

from ripieno.sandbox.confinement import syscalls

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_MODE_FILTER = 2
#: From here on, x86-64 numbers the calls of x32.
_X32 = 0x40000000
#: The first number unknown to this list; both architectures share numbers since 424.
_UNKNOWN = 471

_NEW_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_UNIX, _INET, _INET6 = 1, 2, 10
_STREAM, _DATAGRAM, _SEQUENCED = 1, 2, 5
_TYPE = 0xF
#: ioctls that insert characters into the terminal as if typed.
_TYPING = (0x5412, 0x541C)
_WRITE_ACCESS, _TRUNCATE = 0o3, 0o1000
#: Flags of ``open`` with which it makes a file, O_CREAT and __O_TMPFILE; and the bits that lend an identity.
_CREATES, _SET_USER, _SET_GROUP = 0o20000100, 0o4000, 0o2000

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
#: Number on x86-64, and on aarch64; None where there is no such call.
_Numbers = tuple[int | None, int | None]

_REFUSED: dict[str, _Numbers] = {
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # Ways around this filter, or into the kernel.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
    # Files by handle, and mounts.
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # The machine.
    "acct": (163, 89),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "vhangup": (153, 58),
}
#: Memory, messages and semaphores of the whole machine, without an IPC namespace.
_SHARED: dict[str, _Numbers] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "mq_open": (240, 180),
}
CAPSET = (126, 91)
_SOCKET: _Numbers = (41, 198)
_SOCKETPAIR: _Numbers = (53, 199)
_CLONE: _Numbers = (56, 220)
_CLONE3: _Numbers = (435, 435)
_UNSHARE: _Numbers = (272, 97)
_IOCTL: _Numbers = (16, 29)
_PRLIMIT: _Numbers = (302, 261)
_TRUNCATE_PATH: _Numbers = (76, 45)
_OPEN: _Numbers = (2, None)
_OPENAT: _Numbers = (257, 56)
_OPENAT2: _Numbers = (437, 437)
#: Calls that set a mode, and calls that make a file with one; the place of the mode among the arguments.
_SET_MODE: tuple[tuple[_Numbers, int], ...] = (((90, None), 1), ((91, 52), 1), ((268, 53), 2), ((452, 452), 2))
_MAKE: tuple[tuple[_Numbers, int], ...] = (((85, None), 1), ((133, None), 1), ((259, 33), 2))

Instruction = tuple[int, int, int, int]


@functools.cache
def program(
    *,
    network: bool = False,
    own_ipc: bool = True,
    own_processes: bool = True,
    guards_truncation: bool = True,
    machine: str = os.uname().machine,
) -> bytes:
    """The filter for a machine, named as by ``uname -m``.

    ``own_ipc`` and ``own_processes``: the process has its own namespace. ``guards_truncation``: Landlock refuses to
    truncate files outside (since ABI 3), so the filter need not. Errors: ``OSError`` for an unknown machine.
    """
    number_of = column(machine)
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine][0]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), _refusal(errno.ENOSYS)]
    code += [(_AT_LEAST, 0, 1, _UNKNOWN), _refusal(errno.ENOSYS)]
    rules = _rules(network=network)
    if not own_ipc:
        rules += [(numbers, [_refusal(errno.EPERM)]) for numbers in _SHARED.values()]
    if not own_processes:
        # Lowering the limits of another process of the same user can end it.
        own = [_argument(0), (_EQUAL, 0, 1, 0), (_RETURN, 0, 0, _ALLOW), _refusal(errno.EPERM)]
        rules.append((_PRLIMIT, own))
    if not guards_truncation:
        rules.append((_TRUNCATE_PATH, [_refusal(errno.EPERM)]))
    for numbers, flags in ((_OPEN, 1), (_OPENAT, 2)):
        truncation = [] if guards_truncation else _no_truncation(flags)
        rules.append((numbers, [*truncation, *_no_identity(flags)]))
    for numbers, block in rules:
        number = numbers[number_of]
        if number is not None:
            code += [(_EQUAL, 0, len(block), number), *block]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *one) for one in code)


def column(machine: str = os.uname().machine) -> int:
    """The index of a machine's number of a call. Errors: ``OSError`` for an unknown machine."""
    if machine not in _ARCHITECTURES or struct.calcsize("P") != 8:
        raise OSError(errno.ENOSYS, f"seccomp: there is no filter for {machine}, only for {', '.join(_ARCHITECTURES)}")
    return _ARCHITECTURES[machine][1]


def install(data: bytes) -> None:
    """Installs the filter in this process, permanently. Needs ``no_new_privs``. Errors: ``OSError``."""
    instructions = syscalls.buffer(data)
    header = syscalls.buffer(struct.pack("@HP", len(data) // 8, syscalls.address(instructions)))
    syscalls.prctl("seccomp", syscalls.PR_SET_SECCOMP, _MODE_FILTER, header)


def _rules(*, network: bool) -> list[tuple[_Numbers, Sequence[Instruction]]]:
    """Calls with their blocks of instructions. Each block ends with a decision."""
    never = [_refusal(errno.EPERM)]
    return [
        (_SOCKET, _sockets((_INET, _INET6), (_STREAM, _DATAGRAM)) if network else never),
        (_SOCKETPAIR, _sockets((_UNIX,), (_STREAM, _SEQUENCED))),
        (_CLONE, _without_bits(0, _NEW_NAMESPACES)),
        # Its flags are in memory, which no filter can read; every C library falls back to ``clone``.
        (_CLONE3, [_refusal(errno.ENOSYS)]),
        (_UNSHARE, _without_bits(0, _NEW_NAMESPACES | _NEW_TIME)),
        (_IOCTL, [_argument(1), *_each(_TYPING, _refusal(errno.EPERM)), (_RETURN, 0, 0, _ALLOW)]),
        *((numbers, never) for numbers in _REFUSED.values()),
        *((numbers, _without_bits(index, _SET_USER)) for numbers, index in _SET_MODE),
        *((numbers, _without_bits(index, _SET_USER | _SET_GROUP)) for numbers, index in _MAKE),
        # As of ``clone3``, its mode is in memory; programs fall back to ``openat``.
        (_OPENAT2, [_refusal(errno.ENOSYS)]),
    ]


def _sockets(families: Sequence[int], kinds: Sequence[int]) -> list[Instruction]:
    """Allows these families and kinds."""
    kind = [_argument(1), (_AND, 0, 0, _TYPE), *_each(kinds, (_RETURN, 0, 0, _ALLOW)), _refusal(errno.EPERM)]
    family: list[Instruction] = [_argument(0)]
    for index, one in enumerate(families):
        # Jumps to the kinds, past the other families and the refusal.
        family.append((_EQUAL, len(families) - index, 0, one))
    return [*family, _refusal(errno.EPERM), *kind]


def _each(values: Sequence[int], decision: Instruction) -> list[Instruction]:
    return [step for value in values for step in ((_EQUAL, 0, 1, value), decision)]


def _without_bits(index: int, bits: int) -> list[Instruction]:
    return [_argument(index), (_ANY_BIT, 0, 1, bits), _refusal(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]


def _no_truncation(index: int) -> list[Instruction]:
    """Refuses to open for reading and truncate at once, which older kernels do not count as a change; else goes on."""
    truncating = (_EQUAL, 0, 1, _TRUNCATE)
    return [_argument(index), (_AND, 0, 0, _WRITE_ACCESS | _TRUNCATE), truncating, _refusal(errno.EPERM)]


def _no_identity(index: int) -> list[Instruction]:
    """Refuses to make a file that lends an identity. ``index`` is that of the flags; the mode follows them."""
    mode = _without_bits(index + 1, _SET_USER | _SET_GROUP)
    # Without a file to make, the mode is whatever was in its place: jumps to the last step, which allows.
    return [_argument(index), (_ANY_BIT, 0, len(mode) - 1, _CREATES), *mode]


def _argument(index: int) -> Instruction:
    """The lower half of an argument; the checked ones have at most 32 bits, little-endian."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _refusal(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)
