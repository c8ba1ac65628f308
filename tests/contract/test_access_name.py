"""Names of tokens and people, the same in both planes."""

import pytest

from contract.access_name import ACCESS_NAME_BOUND, fault_of_name


@pytest.mark.parametrize("name", ["a", "control-plane", "anna.b_2", "0", "x" * 128])
def test_letters_digits_dot_underscore_and_hyphen_are_usable(name):
    assert fault_of_name(name) is None


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "a\x00b", "a b", "..", "-a", "é", "a\n", "x" * 129, "settings:admin"],
)
def test_what_a_url_or_a_database_does_not_take_is_refused_with_its_bound(name):
    fault = fault_of_name(name)
    assert fault is not None
    assert ACCESS_NAME_BOUND in fault
    assert "\x00" not in fault
    assert "129" in fault or len(name) < 129
