"""The fork generation of this process.

`generation` returns a number that is constant within a process and differs in every forked child, by whatever call it
was forked: no child has the number of an ancestor. An object that must not be used twice remembers the generation it
was made in and is refused in any other. Process ids do not suffice: they are reused, and every pid namespace has a
process 1.

Call it as ``_fork.generation()``; it takes no lock and makes no system call.
"""

from ferrodp._native import fork_generation as generation

__all__ = ["generation"]
