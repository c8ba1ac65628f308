"""Our policies give the published table."""

import pytest

from trimtab.bench import overflow


@pytest.mark.parametrize("name", ["strong", "together"])
def test_one_case_is_near_the_published_row(name, monkeypatch):
    monkeypatch.setattr(overflow, "STEPS", 3)
    (case,) = [case for case in overflow.CASES if case.name == name]
    monkeypatch.setattr(overflow, "CASES", (case,))

    values = {figure.name.split(".", 2)[2]: figure.value for figure in overflow.run()}

    assert values["overflow"] == pytest.approx(case.overflow, abs=1.5)
    assert values["drop.dropped"] == values["overflow"]
    for policy, (percent, _) in case.published.items():
        assert values[f"{policy.value}.dropped"] == pytest.approx(percent, abs=1.5)
