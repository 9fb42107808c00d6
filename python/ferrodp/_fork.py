"""Which process of a family of forks this is.

`generation` is a number that stays the same until the process is forked and is another one in the child, by whatever
call it was made: no child has a number that an ancestor had. What must not be used twice remembers the one it was made
in and is refused in any other. Process ids would not do: they are reused, and every pid namespace has a process 1.

Call it as ``_fork.generation()``; it takes no lock and asks the operating system for nothing.
"""

from ferrodp._native import fork_generation as generation

__all__ = ["generation"]
