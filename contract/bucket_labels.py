"""Which `le` labels of a Prometheus histogram lie at or above a bound, as a regular expression.

PromQL cannot compare labels as numbers. Cumulative counts never fall as `le` rises, so the least
count among these labels is the count at the smallest bound that a server has there, whatever its
bounds: at the bound itself where the server has it.
"""

from decimal import Decimal

SMALLEST, LARGEST = 1e-4, 1e6
"""Between them every client writes `le` without an exponent; above, with a positive one."""


def at_or_above(bound: float) -> str:
    """A pattern (RE2, to be matched whole) of the labels that are numbers of at least `bound`.

    Raises:
        ValueError: the bound is outside of [1e-4, 1e6).
    """
    if not SMALLEST <= bound < LARGEST:
        raise ValueError(f"bound {bound:g} lies outside [{SMALLEST:g}, {LARGEST:g})")
    whole, _, part = f"{Decimal(repr(bound)):f}".partition(".")
    part = part.rstrip("0")
    fraction = "([.][0-9]*)?"
    larger = [f"[1-9][0-9]{{{len(whole)},}}{fraction}"]  # more digits before the point
    larger += [head + "[0-9]" * left + fraction for head, left in _larger_digits(whole)]
    larger += [f"{whole}[.]{head}[0-9]*" for head, _ in _larger_digits(part)]
    equal = f"{whole}[.]{part}[0-9]*" if part else f"{whole}{fraction}"
    return "|".join([*larger, equal, "[0-9.]+e[+]?[0-9]+", "[+]Inf"])


def _larger_digits(digits: str) -> list[tuple[str, int]]:
    """Beginnings of larger numbers of the same length: up to a digit that is larger, and the rest.

    "25" → [("[3-9]", 1), ("2[6-9]", 0)].
    """
    return [
        (f"{digits[:place]}[{int(digit) + 1}-9]", len(digits) - place - 1)
        for place, digit in enumerate(digits)
        if digit != "9"
    ]
