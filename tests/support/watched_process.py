"""A process whose random bytes are chosen by this one and whose memory is read from outside.

The child runs calls; its `getrandom` is answered by the parent (seccomp_unotify(2)), so the parent knows every key
without the child having seen it anywhere but where the call put it. After a call the parent reads every writable page
of the child through /proc: heaps, data, the stacks of threads that run and of threads that have ended.
"""

from __future__ import annotations

import array
import fcntl
import hashlib
import os
import platform
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest

from reference.aes import _SHIFT_ROWS, S_BOX, _round_keys

NUMBERS = {"x86_64": (318, 317), "aarch64": (278, 277)}  # getrandom, seccomp
RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND
WORD, PAGE = 8, 4096  # bytes: what is looked for is words of this size, and pages of zeros are passed over

CHILD = r"""
import ctypes, os, socket, struct, sys
import numpy as np
import ferrodp as fd
from ferrodp import _native, mechanisms, statistics

getrandom, seccomp, channel = map(int, sys.argv[1:])
# Load the number of the system call; getrandom asks the listener, the rest passes.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, getrandom), (0x06, 0, 0, 0x7FC00000), (0x06, 0, 0, 0x7FFF0000)]
program = b"".join(struct.pack("HBBI", *each) for each in code)
buffer = ctypes.create_string_buffer(program)
header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer)))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
listener = libc.syscall(seccomp, 1, 8, header)
if listener < 0:
    sys.exit(77)
with socket.socket(fileno=channel) as parent:
    socket.send_fds(parent, [b"listener"], [listener])
    os.close(listener)
    names = globals()
    while line := parent.recv(1 << 16):
        try:
            exec(line.decode(), names)
            answer = "done"
        except Exception as error:
            answer = repr(error)
        parent.send(answer.encode())
"""


class WatchedProcess:
    """A child that runs statements; `keys` are the random bytes that it was given, in order."""

    def __init__(self, isa: str) -> None:
        if sys.platform != "linux" or platform.machine() not in NUMBERS:
            pytest.skip("answering the system calls of another process is for Linux")
        self.keys: list[bytes] = []
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        numbers = map(str, (*NUMBERS[platform.machine()], theirs.fileno()))
        environment = os.environ | {"FERRODP_ISA": isa, "OPENBLAS_NUM_THREADS": "1"}
        self._child = subprocess.Popen(
            [sys.executable, "-c", CHILD, *numbers], pass_fds=[theirs.fileno()], env=environment, text=True
        )
        theirs.close()
        _, found, _, _ = socket.recv_fds(self._channel, 64, 1)
        if not found:
            assert self._child.wait() == 77
            pytest.skip("this system does not let one process answer the system calls of another")
        self._listener = found[0]
        self._memory = os.open(f"/proc/{self._child.pid}/mem", os.O_RDWR)

    def close(self) -> None:
        self._channel.close()
        self._child.wait(30)
        os.close(self._listener)
        os.close(self._memory)

    def run(self, statements: str) -> list[bytes]:
        """Run statements in the child and return the keys that it asked for meanwhile."""
        before = len(self.keys)
        self._channel.send(statements.encode())
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll(60_000) or [(-1, 0)]:
                assert descriptor >= 0, "the child does not answer"
                if descriptor == self._listener:
                    self._answer()
                else:
                    answer = self._channel.recv(4096).decode()
                    assert answer == "done", answer or "the child has died"
                    return [key for key in self.keys[before:] if len(key) == 32]

    def _answer(self) -> None:
        request = array.array("B", bytes(80))
        try:
            fcntl.ioctl(self._listener, RECEIVE, request)
            identity, _, _, _, _, _, address, length = struct.unpack_from("=QIIiIQQQ", request)
            key = hashlib.shake_256(b"%d" % len(self.keys)).digest(length)
            os.pwrite(self._memory, key, address) if length else None
            fcntl.ioctl(self._listener, SEND, array.array("B", struct.pack("=QqiI", identity, length, 0, 0)))
        except FileNotFoundError:  # a signal has interrupted the call, which will ask again
            return
        self.keys.append(key)

    def pages(self) -> Iterable[tuple[str, int, npt.NDArray[np.uint8]]]:
        """Yield name, address and bytes of every writable mapping."""
        with open(f"/proc/{self._child.pid}/maps") as maps:
            lines = [line.split(maxsplit=5) for line in maps]
        for place, permissions, *_, name in (line if len(line) == 6 else [*line, "(anonymous)"] for line in lines):
            start, end = (int(edge, 16) for edge in place.split("-"))
            if permissions.startswith("rw"):
                yield name.strip(), start, np.frombuffer(os.pread(self._memory, end - start, start), np.uint8)

    def found(self, words: npt.NDArray[np.uint64]) -> list[str]:
        """Return where in the child's memory some of the words are, at multiples of four bytes."""
        wanted = np.unique(words)
        may_be = np.zeros(1 << 20, bool)
        may_be[hashed(wanted)] = True
        hits = []
        for name, start, data in self.pages():
            used = np.flatnonzero(data.view(np.uint64).reshape(-1, PAGE // WORD).any(axis=1))
            for run in np.split(used, np.flatnonzero(np.diff(used) > 1) + 1) if used.size else []:
                first, end = int(run[0]) * PAGE, int(run[-1] + 1) * PAGE
                for shift in (0, 4):
                    every = data[first + shift : end + shift - WORD * (shift > 0)].view(np.uint64)
                    places = np.flatnonzero(may_be[hashed(every)])
                    nearest = np.searchsorted(wanted, every[places]).clip(max=wanted.size - 1)
                    for place in places[wanted[nearest] == every[places]]:
                        address = start + first + shift + WORD * int(place)
                        hits.append(f"{every[place]:016x} at {address:#x} in {name}")
        return hits


def hashed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 20 bits of every word, spread so that words of one kind do not share them."""
    return (words * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(44)


def encrypted(key: bytes, stream: int, counters: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the words of those blocks: the reference's AES (`reference/aes.py`) for many blocks at once."""
    box = np.frombuffer(S_BOX, np.uint8)
    keys = [np.frombuffer(each, np.uint8) for each in _round_keys(key)]
    state = np.empty((counters.size, 2), ">u8")
    state[:, 0], state[:, 1] = stream, counters
    state = state.view(np.uint8) ^ keys[0]
    for number in range(1, 15):
        state = box[state][:, _SHIFT_ROWS]
        if number < 14:
            columns = state.reshape(-1, 4, 4)
            doubled = (columns << 1) ^ (columns >> 7) * np.uint8(0x1B)
            whole = np.bitwise_xor.reduce(columns, axis=2, keepdims=True)
            state = (columns ^ whole ^ doubled ^ np.roll(doubled, -1, axis=2)).reshape(-1, 16)
        state = state ^ keys[number]
    return np.ascontiguousarray(state).view("<u8").ravel()


def schedule(key: bytes) -> npt.NDArray[np.uint64]:
    """Return the words of the fifteen round keys, the first two of which are the key."""
    return np.frombuffer(b"".join(_round_keys(key)), "<u8")
