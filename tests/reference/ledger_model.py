"""What a ledger is, in a page of exact fractions: no disk, no threads, no crash, no units.

A scope has a cap and a flag; a cost is a tuple of fractions (ε, δ). A charge goes to all scopes named and to those
around them, all or nothing. Sums are formed anew from all that was paid, whenever they are asked for. `Refused` says
which family of error the ledger has to raise.
"""

from dataclasses import dataclass, field
from fractions import Fraction


class Refused(Exception):  # noqa: N818  # what happened, not that it is an error
    """The model refuses, and has changed nothing."""


@dataclass
class Scope:
    cap: tuple[Fraction, ...]
    frozen: bool = False


@dataclass(eq=False)
class Paid:
    what: tuple
    cost: tuple[Fraction, ...]
    scopes: tuple[str, ...]
    count: int
    state: str
    key: str | None


@dataclass
class LedgerModel:
    scopes: dict[str, Scope] = field(default_factory=dict)
    keys: dict[tuple, Paid] = field(default_factory=dict)
    paid: list[Paid] = field(default_factory=list)

    def create(self, name, cap):
        """A scope begins with what was charged within it."""
        if name in self.scopes or any(spent > most for spent, most in zip(self.spent(name), cap, strict=True)):
            raise Refused("parameter")
        self.scopes[name] = Scope(cap)

    def spent(self, name):
        """What was charged to a scope, or would have been if it had always been there.

        A charge counts once where the scope was there; where it was made later, once for each outermost one within.
        """
        total = [Fraction(0), Fraction(0)]
        for paid in self.paid:
            within = [each for each in paid.scopes if each.startswith(f"{name}/")]
            outermost = [each for each in within if not any(each.startswith(f"{other}/") for other in within)]
            times = paid.count * (1 if name in paid.scopes else len(outermost))
            total = [sum_ + times * each for sum_, each in zip(total, paid.cost, strict=True)]
        return tuple(total)

    def around(self, names):
        if any(name not in self.scopes for name in names):
            raise Refused("parameter")
        return tuple(outer for outer in self.scopes if any(f"{name}/".startswith(f"{outer}/") for name in names))

    def reserve(self, names, cost, *, key=None, count=1, state="held", again_ok=False):
        what, charged = (tuple(sorted(set(names))), cost, count), self.around(names)
        known = self.keys.get((what[0], key))  # a key is one of those for the same scopes
        if known is not None:
            if known.what != what:
                raise Refused("ticket")
            if known.state != "held" and not again_ok:
                raise Refused("key")
            return known
        if any(self.scopes[name].frozen for name in charged) or self.remaining(names, cost) < count:
            raise Refused("budget")
        paid = Paid(what, cost, charged, count, state, key)
        self.paid.append(paid)
        if key is not None:
            self.keys[what[0], key] = paid
        return paid

    def spend(self, names, cost, key, again_ok):
        """Return whether this call spent it."""
        known = set(self.keys.values())
        paid = self.reserve(names, cost, key=key, state="spent", again_ok=again_ok)
        if paid.state != "held":
            return paid not in known
        self.arm(paid)
        return True

    def arm(self, paid):
        if paid.state != "held":
            raise Refused("ticket")
        self.check_running(paid)
        paid.state = "armed"

    def check_running(self, paid):
        """Nothing begins while a scope is frozen that it was charged to, or that lies around one by now."""
        if any(self.scopes[name].frozen for name in self.around(paid.what[0])):
            raise Refused("budget")

    def cancel(self, paid):
        if paid.state != "held":
            raise Refused("ticket")
        paid.count = 0
        paid.state = "cancelled"
        self.keys.pop((paid.what[0], paid.key), None)

    def end_lease(self, paid, unused):
        paid.count -= unused

    def change_cap(self, name, cap, *, more):
        old = self.around([name]) and self.scopes[name].cap
        if any(new < now if more else new > now for new, now in zip(cap, old, strict=True)):
            raise Refused("parameter")
        self.scopes[name].cap = cap

    def remaining(self, names, cost):
        left = []
        for name in self.around(names):
            scope = self.scopes[name]
            rooms = [cap - spent for cap, spent in zip(scope.cap, self.spent(name), strict=True)]
            if scope.frozen or min(rooms) < 0:
                return 0
            left += [room // each for room, each in zip(rooms, cost, strict=True) if each]
        return min(left, default=2**63 - 1)
