"""Moments from numbers and from ISO 8601."""

import pytest
from pydantic import TypeAdapter, ValidationError

from controlplane.moment import Moment

MOMENT = TypeAdapter(Moment)


@pytest.mark.parametrize(
    "said",
    ["1796040000", 1796040000.0, "2026-11-30T12:00:00Z", "2026-11-30T14:00:00+02:00",
     "2026-11-30T12:00Z", "20261130T120000Z"],
)  # fmt: skip
def test_numbers_and_iso_8601_with_an_offset_are_moments(said):
    assert MOMENT.validate_python(said) == 1796040000.0


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("2026-11-30T12:00:00", "whose clock"),
        ("2026-11-30", "whose clock"),
        ("2026-11-30T14:00:00 02:00", "%2B"),
        ("yesterday", "ISO 8601"),
        ("", "ISO 8601"),
        (None, "valid number"),
    ],
)
def test_what_is_no_moment_is_refused_with_a_reason(said, why):
    with pytest.raises(ValidationError, match=why):
        MOMENT.validate_python(said)
