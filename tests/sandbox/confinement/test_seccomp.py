"""The filter of system calls, decision by decision, for both architectures: run here as the kernel would run it."""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.sandbox.confinement import seccomp

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003}
ALLOW, KILL = "allow", "kill"
MACHINES = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


def decide(program: bytes, number: int, *arguments: int, machine: str) -> str | int:
    """What the filter says: allow, kill, or the error. Written from the kernel's description of classic BPF."""
    padded = [*arguments, *(0,) * (6 - len(arguments))]
    signed = number - (1 << 32) if number >= 1 << 31 else number
    data = struct.pack("=iIQ6Q", signed, ARCHITECTURES[machine], 0, *padded)
    instructions = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = 0
    for _ in range(len(instructions)):
        code, yes, no, value = instructions[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(value & 0xFFFF0000, value & 0xFFFF)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            at += yes if holds else no
    raise AssertionError("The filter does not end.")


@MACHINES
def test_sockets_by_family_and_kind(machine: str) -> None:
    column = ["x86_64", "aarch64"].index(machine)
    socket, pair = (41, 198)[column], (53, 199)[column]
    flags = 0o2000000 | 0o4000
    closed, open_ = (seccomp.program(network=network, machine=machine) for network in (False, True))
    for family in range(64):
        for kind in range(16):
            for more in (0, flags):
                inet = family in (2, 10) and kind in (1, 2)
                local = family == 1 and kind in (1, 5)
                assert decide(closed, socket, family, kind | more, machine=machine) == errno.EPERM
                assert decide(open_, socket, family, kind | more, machine=machine) == (ALLOW if inet else errno.EPERM)
                paired = [decide(program, pair, family, kind | more, machine=machine) for program in (closed, open_)]
                assert paired == [ALLOW if local else errno.EPERM] * 2


@MACHINES
def test_new_namespaces_by_flag(machine: str) -> None:
    clone, unshare = (56, 272) if machine == "x86_64" else (220, 97)
    program = seccomp.program(machine=machine)
    for bit in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert decide(program, clone, bit | 17, machine=machine) == errno.EPERM
        assert decide(program, unshare, bit, machine=machine) == errno.EPERM
    assert decide(program, unshare, 0x80, machine=machine) == errno.EPERM
    # A thread, a child, a child that shares memory until it is another program.
    for flags in (0x3D0F00, 17, 0x4111):
        assert decide(program, clone, flags, machine=machine) == ALLOW
    assert decide(program, unshare, 0x200, machine=machine) == ALLOW
    assert decide(program, 435, 0, 0, machine=machine) == errno.ENOSYS


@MACHINES
def test_every_listed_call_is_refused_whatever_its_arguments(machine: str) -> None:
    column = ["x86_64", "aarch64"].index(machine)
    programs = [seccomp.program(network=network, machine=machine) for network in (False, True)]
    numbers = [numbers[column] for numbers in seccomp._REFUSED.values()]
    listed = [number for number in numbers if number is not None]
    assert len(listed) == len(set(listed)) > 45
    for number in listed:
        for program in programs:
            assert decide(program, number, machine=machine) == errno.EPERM
            assert decide(program, number, *(2**64 - 1,) * 6, machine=machine) == errno.EPERM


@MACHINES
@given(number=st.integers(0, 2**32 - 1), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_it_always_decides_and_knows_no_new_call(machine: str, number: int, arguments: list[int]) -> None:
    program = seccomp.program(machine=machine)
    decision = decide(program, number, *arguments, machine=machine)
    assert decision in (ALLOW, errno.EPERM, errno.ENOSYS)
    if number >= 471:
        assert decision == errno.ENOSYS
    assert decide(program, number, *arguments, machine="i386") == KILL


@MACHINES
def test_calls_that_every_program_makes_are_allowed(machine: str) -> None:
    """read, write, mmap, execve, exit_group, futex, openat, getrandom, prlimit64 for oneself."""
    numbers = {"x86_64": (0, 1, 9, 59, 231, 202, 257, 318, 302), "aarch64": (63, 64, 222, 221, 94, 98, 56, 278, 261)}[
        machine
    ]
    for more in ({}, {"own_ipc": False, "own_processes": False, "guards_truncation": False}):
        program = seccomp.program(machine=machine, **more)
        for number in numbers:
            assert decide(program, number, machine=machine) == ALLOW


@MACHINES
def test_where_there_is_less_of_ones_own_the_filter_refuses_more(machine: str) -> None:
    column = ["x86_64", "aarch64"].index(machine)
    whole = seccomp.program(machine=machine)
    bare = seccomp.program(machine=machine, own_ipc=False, own_processes=False, guards_truncation=False)
    for numbers in seccomp._SHARED.values():
        number = numbers[column]
        assert number is not None
        assert (decide(whole, number, machine=machine), decide(bare, number, machine=machine)) == (ALLOW, errno.EPERM)
    limits, truncate, openat = (302, 261)[column], (76, 45)[column], (257, 56)[column]
    assert (decide(whole, limits, 7, machine=machine), decide(bare, limits, 7, machine=machine)) == (ALLOW, errno.EPERM)
    assert (decide(whole, truncate, machine=machine), decide(bare, truncate, machine=machine)) == (ALLOW, errno.EPERM)
    assert decide(bare, 437, machine=machine) == errno.ENOSYS
    for flags, decision in ((0, ALLOW), (0o1000, errno.EPERM), (0o1001, ALLOW), (0o1002, ALLOW), (0o2000100, ALLOW)):
        assert decide(bare, openat, 0, 0, flags, machine=machine) == decision


@MACHINES
@given(mode=st.integers(0, 2**32 - 1), flags=st.integers(0, 2**32 - 1))
def test_no_file_lends_an_identity(machine: str, mode: int, flags: int) -> None:
    column = ["x86_64", "aarch64"].index(machine)
    for more in ({}, {"own_ipc": False, "own_processes": False, "guards_truncation": False}):
        program = seccomp.program(machine=machine, **more)
        for numbers, at in (((90, None), 1), ((91, 52), 1), ((268, 53), 2), ((452, 452), 2)):
            if (number := numbers[column]) is not None:
                expected = errno.EPERM if mode & 0o4000 else ALLOW
                assert decide(program, number, *(0,) * at, mode, machine=machine) == expected
        for numbers, at in (((85, None), 1), ((133, None), 1), ((259, 33), 2)):
            if (number := numbers[column]) is not None:
                expected = errno.EPERM if mode & 0o6000 else ALLOW
                assert decide(program, number, *(0,) * at, mode, machine=machine) == expected
        creates = bool(flags & 0o20000100)
        truncates = bool(more) and flags & 0o1003 == 0o1000
        for numbers, at in (((2, None), 1), ((257, 56), 2)):
            if (number := numbers[column]) is not None:
                expected = errno.EPERM if truncates or (creates and mode & 0o6000) else ALLOW
                assert decide(program, number, *(0,) * at, flags, mode, machine=machine) == expected
        assert decide(program, 437, machine=machine) == errno.ENOSYS


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    with pytest.raises(OSError, match="no filter for riscv64"):
        seccomp.program(machine="riscv64")
