"""Runs inside the sandbox's process: limits itself, then the program from standard input, then says the token.

Never imported: sandbox.py hands its text to an interpreter of its own. Arguments: folder, processor seconds, bytes of
memory, bytes of a file.
"""

# What programs of the suites import is there before the doors are closed: some of it loads libraries.
import collections  # noqa: F401
import copy  # noqa: F401
import functools  # noqa: F401
import hashlib  # noqa: F401
import heapq  # noqa: F401
import itertools  # noqa: F401
import math  # noqa: F401
import os
import posix
import random  # noqa: F401
import re  # noqa: F401
import resource
import signal
import string  # noqa: F401
import sys
import typing  # noqa: F401


def limit(folder: str, cpu_s: int, memory_bytes: int, file_bytes: int) -> None:
    for what, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        # A second more until the kill: SIGXCPU comes first, and tells what happened.
        hard = most + 1 if what == resource.RLIMIT_CPU else most
        resource.setrlimit(what, (most, hard))
    # By default the first process of a namespace ignores it.
    signal.signal(signal.SIGXCPU, lambda number, frame: os._exit(124))
    home = os.path.realpath(folder) + os.sep
    realpath, fspath, isdir = os.path.realpath, os.fspath, os.path.isdir
    # No hook hears of these.
    for unheard in ("mkfifo", "mknod"):
        for module in (os, posix):
            delattr(module, unheard)
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    refused = (
        "os.fork os.forkpty os.exec os.posix_spawn os.spawn os.system os.startfile os.kill os.killpg os.remove"
        " os.rename os.rmdir os.mkdir os.chmod os.chown os.link os.symlink os.truncate os.utime os.setxattr"
        " os.removexattr os.chflags os.lockf os.chroot os.putenv os.unsetenv pty.spawn subprocess.Popen"
        " signal.pthread_kill resource.setrlimit resource.prlimit sys.setprofile sys.settrace"
    )
    names = frozenset(refused.split())
    modules = frozenset(
        "ctypes _ctypes _posixsubprocess _socket socket multiprocessing _multiprocessing".split()
    )

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in names or event.startswith(("socket.", "ctypes.", "shutil.", "ftplib.", "urllib.")):
            raise PermissionError(f"{event} is not for this program")
        if event == "import" and str(arguments[0]).partition(".")[0] in modules:
            raise PermissionError(f"{arguments[0]} is not for this program")
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int) or path is None:
                return
            target = realpath(fspath(path))  # type: ignore[call-overload]
            if isdir(target):  # beneath an open folder files are opened by names that say nothing
                raise PermissionError(f"{target!r} is a folder")
            if isinstance(flags, int) and flags & writes and not str(target).startswith(home):
                raise PermissionError(f"{target!r} is not this program's to write")

    sys.addaudithook(hook)


def main() -> None:
    folder, cpu_s, memory_bytes, file_bytes = sys.argv[1:]
    token = sys.stdin.buffer.readline().strip()
    program = sys.stdin.buffer.read().decode(errors="surrogatepass")
    # What the program prints goes nowhere; the token goes where it cannot be mistaken.
    told = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    limit(folder, int(cpu_s), int(memory_bytes), int(file_bytes))
    exec(compile(program, "program.py", "exec"), {"__name__": "__main__"})
    os.write(told, token)


main()
