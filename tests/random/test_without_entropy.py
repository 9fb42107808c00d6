"""Where the operating system gives no random bytes there is an error that can be caught, and never a known number."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system call is refused by a filter of Linux")

# A filter of system calls: `getrandom` is answered with EIO.
REFUSE = """
import ctypes, errno, os, platform, struct
def refuse():
    number = {"x86_64": 318, "aarch64": 278}[platform.machine()]
    rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | errno.EIO), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(len(rules), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        os._exit(77)
"""


def run(code):
    """Run code in a process of its own; it may call `refuse`. Skip where no filter can be set."""
    script = REFUSE + textwrap.dedent(code)
    environment = {"PYTHONHASHSEED": "0", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode == 77:
        pytest.skip("no filter of system calls here")
    return done


def test_an_import_says_what_is_missing():
    done = run("""
        refuse()
        try:
            import ferrodp
        except ImportError as error:
            print("random bytes" in str(error))
    """)

    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_what_draws_nothing_needs_no_random_bytes():
    """In a thread of its own, for which maps of the standard library would ask for another key."""
    done = run("""
        import threading, numpy as np, ferrodp as fd
        from ferrodp.accounting import *
        def work():
            for accountant in (PldAccountant(), RdpAccountant()):
                sampled = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
                accountant.compose(sampled, count=100)
                assert 0.0 < accountant.epsilon(1e-6) < 9.0
                allocated = RandomAllocationEvent(num_steps=9, num_selected=1, event=sampled.event)
                accountant.compose(allocated)
                assert accountant.epsilon(1e-6) < 9.0
            total = fd.ClippedSum({"a": (3,), "b": (2,)}, clip_norm=1.0)
            total.add({"a": np.ones(3), "b": np.ones(2)})
            source = fd.testing.seeded(bytes(32))
            fd.random.fixed_size_sample(10**6, 100, source=source)
            try:
                fd.NoiseSource().bytes(8)
            except fd.errors.EntropyError as error:
                print("refused", isinstance(error, Exception))
        refuse()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """)

    assert (done.returncode, done.stdout) == (0, "refused True\n"), done.stderr
    assert "UserWarning" in done.stderr or done.stderr == ""


def test_a_bit_generator_goes_on_with_numbers_that_nobody_knows():
    """From the key in reserve: 5000 words are ten buffers. No word comes twice, and another generator gives others."""
    done = run("""
        import numpy as np, ferrodp as fd
        one, other = (np.random.Generator(fd.random.BitGenerator()) for _ in range(2))
        first = one.integers(2**64, size=100, dtype=np.uint64)
        refuse()
        words = np.concatenate([each.integers(2**64, size=5000, dtype=np.uint64) for each in (one, other)])
        print(len(np.unique(np.concatenate([first, words]))))
    """)

    assert (done.returncode, done.stdout, done.stderr) == (0, "10100\n", "")


def test_a_bit_generator_without_a_first_key_is_not_made():
    done = run("""
        import numpy as np, ferrodp as fd
        refuse()
        try:
            fd.random.BitGenerator()
        except fd.errors.EntropyError:
            print("refused")
    """)

    assert (done.returncode, done.stdout) == (0, "refused\n")


def test_a_forked_child_of_a_bit_generator_ends_rather_than_repeat_its_parents_numbers():
    done = run("""
        import signal, numpy as np, ferrodp as fd
        rng = np.random.Generator(fd.random.BitGenerator())
        rng.random(3)
        refuse()
        child = os.fork()
        if child == 0:
            rng.random(3)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGABRT)
    """)

    assert (done.returncode, done.stdout) == (0, "True\n")
    assert "cannot go on without a key" in done.stderr
