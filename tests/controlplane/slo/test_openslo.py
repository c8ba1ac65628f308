import pytest

from controlplane.errors import InvalidInputError
from controlplane.policy.builtin import BUILTIN
from controlplane.slo.openslo import read_openslo, seconds
from controlplane.slo.openslo_export import write_openslo
from controlplane.slo.openslo_kinds import KINDS
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName

GOOD = write_openslo(SloSettings())


@pytest.mark.parametrize("name", BUILTIN)
def test_what_is_written_is_read_back(name):
    settings = BUILTIN[name].slo
    again = read_openslo(write_openslo(settings))
    assert again.governed == tuple(SloName)
    for field in ("ttft", "tpot", "overflow", "tiers"):
        assert getattr(again.settings, field) == getattr(settings, field)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("kind: SLO", "kind: Slo", "document 2"),
        ("openslo/v1", "openslo/v1alpha", "apiVersion"),
        ("lookbackWindow: 1m", "lookbackWindow: 10s", "lookbackWindow"),
        ("op: gt", "op: lte", "alert when burn OP threshold"),
        ("op: lte", "op: gt", "would call slow requests good"),
        ("value: 0.2", "value: 0.19", "not a histogram bound"),
        ("value: 0.2", "value: 0", "threshold in seconds"),
        ("target: 0.99", "target: 1.5", "target"),
        ("timeSliceTarget: 0.95", "description: none", "description"),
        ("budgetingMethod: Timeslices", "budgetingMethod: Occurrences", "must be Timeslices"),
        ("trimtab.dev/consumer: governor", "trimtab.dev/consumer: nobody", "not one of"),
        ("trimtab.dev/slice-seconds: '10'", "trimtab.dev/slice-seconds: ten", "not a number"),
        ("name: tpot", "name: Tpot!", "name"),
        ("trimtab.dev/slo: tpot", "trimtab.dev/slo: ttft", "two SLOs for ttft"),
        ("service: moe-inference", "servce: moe-inference", "service"),
    ],
)
def test_a_mistake_is_named_with_its_document_and_field(old, new, told):
    assert old in GOOD
    with pytest.raises(InvalidInputError, match=told):
        read_openslo(GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [\nb: }", "not YAML: expected the node content, but found '}' (line 2, column 4)"),
        ("", "no document"),
        ("- 1", "document 1 is no mapping but '[1]'"),
        ("port = 8700\n[auth]\n", "document 1 is no mapping but 'port = 8700 [auth]'"),
        ("name: x", "document 1: kind must be one of SLO, SLI, "),
        ("kind: Slo", "document 1 (Slo): kind must be one of SLO, SLI, "),
    ],
)
def test_what_is_no_openslo_is_said_so(text, told):
    with pytest.raises(InvalidInputError) as refused:
        read_openslo(text)
    assert refused.value.detail.startswith(told)
    assert "\n" not in refused.value.detail


def test_every_kind_that_is_read_is_named_in_messages():
    for kind in KINDS:
        with pytest.raises(InvalidInputError) as refused:
            read_openslo(f"kind: {kind}")
        assert "kind must be" not in refused.value.detail


def test_valid_documents_of_others_are_left_alone():
    other = GOOD.split("---\n")[1].replace("name: ttft", "name: checkout", 1)
    other = other.replace("trimtab.dev/slo: ttft", "team: shop")
    found = read_openslo(other)
    assert found.governed == ()
    assert found.settings == SloSettings()


@pytest.mark.parametrize(("text", "value"), [("1m", 60), ("2h", 7200), ("30d", 2_592_000)])
def test_durations(text, value):
    assert seconds(text) == value
