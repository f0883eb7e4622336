"""Runs confined, as text: tries everything that it must not be able to do, and prints what came of it, as JSON.

For each attempt: "refused" with the error, or "done" with what was got. Arguments: a writable folder, a folder outside
with ``secret``, ``mine`` (a file of this user) and ``folder``, the number of a process outside, and a JSON list
of files in homes.
"""

import ctypes
import json
import mmap
import os
import platform
import signal
import socket
import sys
import tempfile
import threading

INSIDE, OUTSIDE, VICTIM = sys.argv[1], sys.argv[2], int(sys.argv[3])
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
found = {}


def attempt(name):
    def decorate(function):
        try:
            found[name] = f"done {function()!r}"[:300]
        except (OSError, MemoryError) as error:
            found[name] = f"refused {error}"
        return function

    return decorate


def call(x86, arm, *arguments):
    LIBC.syscall.restype = ctypes.c_long
    number = x86 if X86 else arm
    result = LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read(path):
    with open(path, "rb") as file:
        return file.read(1000)


def write(path, flags=os.O_WRONLY):
    descriptor = os.open(path, flags)
    os.close(descriptor)
    return "opened"


SECRET, MINE = f"{OUTSIDE}/secret", f"{OUTSIDE}/mine"

attempt("read")(lambda: read(SECRET))
attempt("read: the folder")(lambda: os.listdir(OUTSIDE))
attempt("read: by a link")(lambda: (os.symlink(SECRET, f"{INSIDE}/l1"), read(f"{INSIDE}/l1")))
attempt("read: by a linked folder")(lambda: (os.symlink(OUTSIDE, f"{INSIDE}/l2"), read(f"{INSIDE}/l2/secret")))
attempt("read: by dots")(lambda: read(os.path.join(INSIDE, os.path.relpath(SECRET, INSIDE))))
attempt("read: by /proc/self/root")(lambda: read(f"/proc/self/root{SECRET}"))
attempt("read: by /proc/1/root")(lambda: read(f"/proc/1/root{SECRET}"))
attempt("read: by a hard link")(lambda: (os.link(SECRET, f"{INSIDE}/h1"), read(f"{INSIDE}/h1")))
attempt("read: by moving it in")(lambda: (os.rename(MINE, f"{INSIDE}/m1"), read(f"{INSIDE}/m1")))
attempt("read: from the folder of the process outside")(lambda: read(f"/proc/{VICTIM}/cwd/secret"))
for number, path in enumerate(json.loads(sys.argv[4])):
    attempt(f"read: of a home, {number}")(lambda path=path: read(path))


@attempt("read: passwords")
def _():
    text = read("/etc/shadow")
    if not text:
        raise PermissionError(1, "there is nothing in it")
    return text


for device in ("kmsg", "mem", "kvm", "vda", "sda", "console", "fuse", "loop0"):
    attempt(f"read: /dev/{device}")(lambda device=device: write(f"/dev/{device}", os.O_RDWR))
attempt("write")(lambda: write(MINE))
attempt("write: append")(lambda: write(MINE, os.O_WRONLY | os.O_APPEND))
attempt("write: truncate")(lambda: os.truncate(MINE, 0))
attempt("write: open and truncate")(lambda: write(MINE, os.O_RDONLY | os.O_TRUNC))
attempt("write: create")(lambda: write(f"{OUTSIDE}/created", os.O_WRONLY | os.O_CREAT))
attempt("write: folder")(lambda: os.mkdir(f"{OUTSIDE}/made"))
attempt("write: remove")(lambda: os.unlink(MINE))
attempt("write: remove folder")(lambda: os.rmdir(f"{OUTSIDE}/folder"))
attempt("write: rename")(lambda: os.rename(MINE, f"{OUTSIDE}/renamed"))
attempt("write: replace")(lambda: (write(f"{INSIDE}/new", os.O_WRONLY | os.O_CREAT), os.rename(f"{INSIDE}/new", MINE)))
attempt("write: link out")(
    lambda: (write(f"{INSIDE}/n2", os.O_WRONLY | os.O_CREAT), os.link(f"{INSIDE}/n2", f"{OUTSIDE}/o"))
)
attempt("write: symbolic link")(lambda: os.symlink("x", f"{OUTSIDE}/link"))
attempt("write: by a link")(lambda: (os.symlink(MINE, f"{INSIDE}/l3"), write(f"{INSIDE}/l3")))
attempt("write: device")(lambda: os.mknod(f"{INSIDE}/device", 0o20600, os.makedev(1, 3)))
attempt("write: settings of the kernel")(lambda: write("/proc/sys/kernel/core_pattern"))
attempt("write: sysrq")(lambda: write("/proc/sysrq-trigger"))
attempt("write: system")(lambda: write("/usr/bin/ripieno-was-here", os.O_WRONLY | os.O_CREAT))
attempt("mode")(lambda: os.chmod(MINE, 0o777))
attempt("mode: owner")(lambda: os.chown(MINE, os.getuid(), os.getgid()))
attempt("mode: time")(lambda: os.utime(MINE, (1, 1)))
attempt("mode: attribute")(lambda: os.setxattr(MINE, "user.x", b"1"))


# A file that lends its owner's identity to whoever runs it.
OWN = f"{INSIDE}/lends".encode()
write(OWN, os.O_WRONLY | os.O_CREAT)
FILE = os.open(OWN, os.O_RDONLY)
SPECIAL = os.O_WRONLY | os.O_CREAT | os.O_EXCL
for mode in (0o4755, 0o6711, 0o104000):
    attempt(f"identity: {mode:o} fchmod")(lambda mode=mode: os.fchmod(FILE, mode))
    attempt(f"identity: {mode:o} fchmodat")(lambda mode=mode: os.chmod(OWN, mode))
    attempt(f"identity: {mode:o} fchmodat2")(lambda mode=mode: call(452, 452, -100, OWN, mode, 0))
    attempt(f"identity: {mode:o} by /proc")(lambda mode=mode: os.chmod(f"/proc/self/fd/{FILE}", mode))
    if X86:
        attempt(f"identity: {mode:o} chmod")(lambda mode=mode: call(90, 0, OWN, mode))
        attempt(f"identity: {mode:o} creat")(lambda mode=mode: call(85, 0, OWN + b"c%o" % mode, mode))
        attempt(f"identity: {mode:o} open")(lambda mode=mode: call(2, 0, OWN + b"o%o" % mode, SPECIAL, mode))
        attempt(f"identity: {mode:o} mknod")(lambda mode=mode: call(133, 0, OWN + b"k%o" % mode, 0o100000 | mode, 0))
for mode in (0o4755, 0o6711, 0o2755, 0o104000):
    name = OWN + b"%o" % mode
    attempt(f"identity: {mode:o} openat")(lambda mode=mode, name=name: call(257, 56, -100, name, SPECIAL, mode))
    attempt(f"identity: {mode:o} unnamed")(
        lambda mode=mode: call(257, 56, -100, INSIDE.encode(), os.O_TMPFILE | os.O_RDWR, mode)
    )
    attempt(f"identity: {mode:o} mknodat")(
        lambda mode=mode, name=name: call(259, 33, -100, name + b"k", 0o100000 | mode, 0)
    )
    how = (ctypes.c_uint64 * 3)(SPECIAL, mode & 0o7777, 0)
    attempt(f"identity: {mode:o} openat2")(
        lambda mode=mode, name=name, how=how: call(437, 437, -100, name + b"2", ctypes.byref(how), 24)
    )


@attempt("environment: of everybody")
def _():
    """Its own and that of its own children, which have nothing in it, may be read."""
    seen = {}
    for pid in [*map(str, range(1, 64)), "self", str(os.getppid()), str(VICTIM), *os.listdir("/proc")]:
        try:
            seen[pid] = read(f"/proc/{pid}/environ")
        except OSError:
            continue
    others = {pid for pid in seen if pid not in ("self", "thread-self", str(os.getpid()))}
    if not others and b"CANARY" not in b"".join(seen.values()):
        raise PermissionError(1, "none but its own")
    return seen


attempt("environment: of the process outside")(lambda: read(f"/proc/{VICTIM}/environ"))
attempt("environment: memory")(lambda: read(f"/proc/{VICTIM}/mem"))
attempt("environment: its files")(lambda: os.listdir(f"/proc/{VICTIM}/fd"))
attempt("environment: parent")(lambda: read(f"/proc/{os.getppid()}/environ"))

for name, family, kind in (
    ("tcp", 2, 1),
    ("tcp over ipv6", 10, 1),
    ("udp", 2, 2),
    ("raw", 2, 3),
    ("packet", 17, 3),
    ("netlink", 16, 3),
    ("vsock", 40, 1),
    ("unix", 1, 1),
    ("unix datagrams", 1, 2),
    ("unix packets", 1, 5),
    ("alg", 38, 5),
    ("smc", 43, 1),
):
    attempt(f"socket: {name}")(lambda family=family, kind=kind: socket.socket(family, kind).close())
attempt("socket: pair of datagrams")(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("socket: io_uring")(lambda: call(425, 425, 8, ctypes.create_string_buffer(200)))

attempt("process: signal")(lambda: os.kill(VICTIM, 0))
attempt("process: kill")(lambda: os.kill(VICTIM, signal.SIGKILL))
attempt("process: kill by pidfd")(lambda: signal.pidfd_send_signal(os.pidfd_open(VICTIM), signal.SIGKILL))
attempt("process: kill everybody")(lambda: os.kill(-1, signal.SIGKILL))
attempt("process: trace")(lambda: call(101, 117, 16, VICTIM, 0, 0))
attempt("process: trace its own child")(lambda: call(101, 117, 0, 0, 0, 0))
attempt("process: read memory")(lambda: call(310, 270, VICTIM, 0, 0, 0, 0, 0))
attempt("process: limits")(lambda: call(302, 261, VICTIM, 0, 0, ctypes.create_string_buffer(16)))
attempt("process: take a descriptor")(lambda: call(438, 438, 0, 0, 0))

NEW_USER, NEW_NET = 0x10000000, 0x40000000
attempt("kernel: namespace of users")(lambda: call(272, 97, NEW_USER))
attempt("kernel: namespace of networks")(lambda: call(272, 97, NEW_USER | NEW_NET))
attempt("kernel: namespace by clone")(lambda: call(56, 220, NEW_USER | 17, 0, 0, 0, 0) or os._exit(0))
attempt("kernel: clone3")(lambda: call(435, 435, 0, 0))
attempt("kernel: setns")(lambda: call(308, 268, os.open("/proc/self/ns/net", 0), 0))
for name, numbers, arguments in (
    ("mount", (165, 40), (b"none", INSIDE.encode(), b"tmpfs", 0, 0)),
    ("unmount", (166, 39), (b"/proc", 2)),
    ("move_mount", (429, 429), (-100, b"", -100, b"", 0)),
    ("open_tree", (428, 428), (-100, b"/", 1)),
    ("fsopen", (430, 430), (b"tmpfs", 0)),
    ("mount_setattr", (442, 442), (-100, b"/", 0, 0, 0)),
    ("pivot_root", (155, 41), (b"/", b"/")),
    ("chroot", (161, 51), (INSIDE.encode(),)),
    ("bpf", (321, 280), (0, 0, 0)),
    ("keyctl", (250, 219), (0, 0, 0, 0, 0)),
    ("add_key", (248, 217), (0, 0, 0, 0, 0)),
    ("perf", (298, 241), (0, 0, 0, 0, 0)),
    ("userfaultfd", (323, 282), (0,)),
    ("module", (175, 105), (0, 0, 0)),
    ("kexec", (246, 104), (0, 0, 0, 0)),
    ("reboot", (169, 142), (0, 0, 0, 0)),
    ("swap", (167, 224), (0, 0)),
    ("handle", (304, 265), (0, 0, 0)),
    ("name of the machine", (170, 161), (b"x", 1)),
    ("fanotify", (300, 262), (0, 0)),
    ("a call that is not known", (600, 600), ()),
):
    attempt(f"kernel: {name}")(lambda numbers=numbers, arguments=arguments: call(*numbers, *arguments))
attempt("kernel: typing")(lambda: call(16, 29, 0, 0x5412, b"x"))
if X86:
    attempt("kernel: x32")(lambda: call(0x40000000 | 39, 0))

    @attempt("kernel: calls of 32 bits")
    def _():
        child = os.fork()
        if child == 0:
            # getpid, asked for as programs of 32 bits do.
            page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
            address = ctypes.addressof(ctypes.c_char.from_buffer(page))
            ctypes.CFUNCTYPE(ctypes.c_int)(address)()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGSYS, signal.SIGSEGV):
            raise PermissionError(1, "ended")
        return status


def works(name):
    def decorate(function):
        try:
            result = function()
            found[f"works: {name}"] = "done" if result is not False else "refused by False"
        except BaseException as error:
            found[f"works: {name}"] = f"refused {error!r}"
        return function

    return decorate


@works("files of its own")
def _():
    os.makedirs(f"{INSIDE}/a/b")
    with open(f"{INSIDE}/a/b/c", "w") as file:
        file.write("x")
    os.truncate(f"{INSIDE}/a/b/c", 0)
    os.rename(f"{INSIDE}/a/b/c", f"{INSIDE}/a/d")
    os.link(f"{INSIDE}/a/d", f"{INSIDE}/a/e")
    os.chmod(f"{INSIDE}/a/d", 0o700)
    # What directories share a group by; and the sticky bit.
    os.chmod(f"{INSIDE}/a/b", 0o3775)
    os.mkfifo(f"{INSIDE}/fifo")
    os.unlink(f"{INSIDE}/a/e")


works("the system's files")(lambda: read("/etc/passwd") and os.listdir("/usr/bin"))
works("devices")(lambda: (os.read(os.open("/dev/urandom", os.O_RDONLY), 9), write("/dev/null")))
works("programs")(lambda: os.system("ls -l /usr | sort | head -1 >/dev/null") == 0)
works("a pair of streams")(socket.socketpair()[0].close)
works("threads")(threading.Thread(target=int).start)
works("home")(lambda: write(os.environ["HOME"] + "/x", os.O_CREAT | os.O_WRONLY))
works("temporary files")(lambda: tempfile.TemporaryFile().close())
works("no privileges")(lambda: LIBC.prctl(39, 0, 0, 0, 0) == 1)

print(json.dumps(found))
