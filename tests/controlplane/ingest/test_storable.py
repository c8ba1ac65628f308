"""What of a frame's header can be stored."""

import pytest

from controlplane.ingest.storable import DEEPEST, LARGEST, unstorable
from tests.support.frames import make_frame


def _nested(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


def test_an_ordinary_header_can_be_stored():
    assert unstorable(make_frame(0).header) == ""


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("sequence", LARGEST + 1, "beyond"),
        ("config_generation", 10**30, "beyond"),
        ("tokens", (0, -(10**30)), "beyond"),
        ("bias_distance", float("nan"), "finite"),
        ("histogram_sums", {"ttft": float("inf")}, "finite"),
        ("boot_id", "a\0b", "NUL"),
        ("group", "g\0", "NUL"),
        ("later_field", {"a\0": 1}, "NUL"),
        ("later_field", [{"x": float("-inf")}], "finite"),
        ("later_field", "\ud800", "Unicode"),
        ("later_field", _nested(DEEPEST + 1), "deeper"),
    ],
)
def test_a_header_that_no_database_or_json_reader_takes_names_the_field(field, value, said):
    header = make_frame(0).header.model_copy(update={field: value})
    reason = unstorable(header)
    assert field in reason
    assert said in reason
