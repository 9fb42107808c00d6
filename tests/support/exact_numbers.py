"""Numbers of the native interval arithmetic, as mpmath has them."""

import mpmath as mp


def exactly(parts):
    """Return the number whose sign, digits in hexadecimal and exponent these are; under enough digits it is exact."""
    negative, digits, exponent = parts
    with mp.workprec(4 * len(digits)):
        return mp.ldexp(int(digits, 16), exponent) * (-1 if negative else 1)


def ends(interval):
    """Return both ends of an interval."""
    return tuple(exactly(end) for end in interval)
