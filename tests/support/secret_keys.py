"""Under valgrind's memcheck: how many branches and addresses of the extension module depend on a secret key?

`valgrind --quiet python tests/support/secret_keys.py path/of/_native.abi3.so` prints one JSON object a call. The key is
called undefined, so that memcheck follows it through the cipher and the noise; the result is called defined again. A
request is a sequence of instructions that does nothing elsewhere (`valgrind/valgrind.h`, `valgrind/memcheck.h`).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

RUNNING, COUNT_ERRORS = 0x1001, 0x1201
MAKE_UNDEFINED, MAKE_DEFINED = 0x4D430001, 0x4D430002

# mov rax, rdi; xor edx, edx; rol rdi by 3, 13, 61 and 51; xchg rbx, rbx; mov rax, rdx; ret
REQUEST = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
KEY = hashlib.sha256(b"memcheck").digest()
SAMPLES = 600
SCALES = [
    *(("gaussian", ratio) for ratio in ((1, 2), (22, 7), (64, 1))),
    *(("laplace", ratio) for ratio in ((1, 2), (10_000, 1), (1 << 50, 1))),
]


def requester(page: mmap.mmap) -> Callable[..., int]:
    """Return a function that makes a request of valgrind and returns its answer, 0 elsewhere. It lives on the page."""
    page.write(REQUEST)
    code = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(page)))

    def request(number: int, start: int = 0, length: int = 0) -> int:
        arguments = (ctypes.c_size_t * 6)(number, start, length, 0, 0, 0)
        return int(code(ctypes.addressof(arguments)))

    return request


def module(path: str) -> Any:
    """Return the extension module alone: the package would import much else, all of it slow under valgrind."""
    spec = importlib.util.spec_from_file_location("_native", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def main(path: str) -> int:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    request, native = requester(page), module(path)
    if not request(RUNNING):
        print("this is for valgrind to run", file=sys.stderr)
        return 2
    in_fixed_time, by_rejection = native.add_discrete_noise_in_fixed_time, native.add_discrete_noise
    calls = [(in_fixed_time, law, ratio, dtype, True) for law, ratio in SCALES for dtype in ("i8", "i4")]
    calls += [(in_fixed_time, law, (22, 7), "i8", False) for law in ("gaussian", "laplace")]
    calls += [(by_rejection, law, (1000, 1), "i8", True) for law in ("gaussian", "laplace")]
    for add, law, ratio, dtype, is_secret in calls:
        expected, values = np.arange(SAMPLES, dtype=dtype), np.arange(SAMPLES, dtype=dtype)
        add(expected, law, *ratio, KEY, 1)
        key = bytes(bytearray(KEY))  # one of its own, whose bytes begin at the end of the object's header
        start = id(key) + bytes.__basicsize__ - 1
        assert ctypes.string_at(start, 32) == KEY
        before = request(COUNT_ERRORS)
        if is_secret:
            request(MAKE_UNDEFINED, start, len(key))
        add(values, law, *ratio, key, 1)
        request(MAKE_DEFINED, start, len(key))
        request(MAKE_DEFINED, values.ctypes.data, values.nbytes)
        found = {"function": add.__name__, "law": law, "ratio": ratio, "dtype": dtype, "secret": is_secret}
        reports = request(COUNT_ERRORS) - before
        print(json.dumps(found | {"reports": reports, "same": bool((values == expected).all())}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
