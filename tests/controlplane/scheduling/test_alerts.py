"""Webhook deliveries: kept first, collapsed, ordered, and one action however they arrive."""

import copy
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from controlplane.audit.models import DecisionRecord
from controlplane.scheduling.alertmanager import Webhook, inbox_key


def body(*alerts, group="{}:{alertname='MoeBiasDrift'}", truncated=0):
    return Webhook.model_validate(
        {
            "version": "4", "groupKey": group, "truncatedAlerts": truncated, "status": "firing",
            "receiver": "trimtab", "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {},
            "externalURL": "http://am", "alerts": list(alerts),
        }
    )  # fmt: skip


def alert(name="MoeBiasDrift", engine="engine-0", status="firing", print_="f1", start=0):
    labels = {"alertname": name} | ({"engine": engine} if engine else {})
    return {
        "status": status, "labels": labels, "annotations": {}, "fingerprint": print_,
        "startsAt": f"2026-01-01T00:00:{start:02d}.000Z", "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
    }  # fmt: skip


def work(governed):
    governed.governor._alerts.run(governed.fence)


def test_an_alert_leads_to_a_decision_of_its_own_with_evidence(governed):
    governed.warm()
    governed.governor.inbox.receive(body(alert()))
    work(governed)
    row = governed.governor.inbox.newest(1)[0]
    assert row.state == "evaluated"
    assert row.outcome.startswith("healthy")
    with governed.database.read() as session:
        decision = session.get(DecisionRecord, row.decision_id)
        assert decision is not None
        assert decision.origin == f"alert:{row.key}"
        assert decision.evidence["slos"]


def test_an_alert_that_names_an_engines_address_is_about_that_engine(governed):
    governed.warm()
    (url,) = governed.governor.groups.urls().values()
    address = url.partition("://")[2].partition("/")[0]
    governed.governor.inbox.receive(body(alert(engine=f"{address}/0")))
    work(governed)
    row = governed.governor.inbox.newest(1)[0]
    assert (row.state, row.engine_id) == ("evaluated", f"{address}/0")
    assert "is the address of engine 'engine-0'" in row.outcome
    with governed.database.read() as session:
        assert session.get(DecisionRecord, row.decision_id).engine_id == "engine-0"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (alert(name="DiskFull"), "DiskFull is not among the alerts of the setting governor.alerts"),
        (alert(engine=None), "names no engine"),
        (alert(engine="elsewhere"), "not configured"),
        (alert(status="resolved"), "resolved"),
    ],
)
def test_an_alert_that_asks_for_nothing_is_kept_with_the_reason(governed, sent, why):
    governed.governor.inbox.receive(body(sent))
    work(governed)
    row = governed.governor.inbox.newest(1)[0]
    assert row.state == "ignored"
    assert why in row.outcome


def test_a_firing_that_repeats_a_closed_episode_is_ignored(governed):
    governed.governor.inbox.receive(body(alert(status="resolved")))
    governed.governor.inbox.receive(body(alert(status="firing"), group="other"))
    work(governed)
    assert (
        "closed" in {row.status: row.outcome for row in governed.governor.inbox.newest(5)}["firing"]
    )


def test_truncated_alerts_are_noted(governed):
    governed.warm()
    governed.governor.inbox.receive(body(alert(), truncated=7))
    work(governed)
    assert "7 alerts" in governed.governor.inbox.newest(1)[0].outcome


def test_a_repeated_delivery_is_the_same_row(governed):
    for _ in range(3):
        governed.governor.inbox.receive(body(alert()))
    rows = governed.governor.inbox.newest(10)
    assert [row.deliveries for row in rows] == [3]


def test_newer_senders_may_say_more_but_status_is_checked():
    assert body({**alert(), "new": 1}).alerts[0].name == "MoeBiasDrift"
    with pytest.raises(ValidationError, match="status"):
        body({**alert(), "status": "odd"})


@given(st.permutations(range(6)))
@settings(max_examples=20, deadline=None)
def test_the_key_does_not_depend_on_order_or_company(order):
    alerts = [alert(print_=f"f{i}", start=i) for i in range(6)]
    keys = [inbox_key("g", a) for a in body(*alerts).alerts]
    shuffled = [inbox_key("g", a) for a in body(*[alerts[i] for i in order]).alerts]
    assert sorted(keys) == sorted(shuffled)
    assert len(set(keys)) == 6


def test_shuffled_and_repeated_deliveries_open_exactly_one_action(governed):
    governed.warm()
    governed.engine.drift()
    governed.clock.advance(24)
    governed.plant.emit(governed.clock.now(), 24)
    names = ("MoeBiasDrift", "MoeOverflowHigh", "MoeExpertLoadSkew", "TtftBurnPage")
    sent = [alert(name, print_=f"{name}{i}", start=i) for name in names for i in range(5)] * 3
    random.Random(11).shuffle(sent)
    for index in range(0, len(sent), 6):
        governed.governor.inbox.receive(body(*copy.deepcopy(sent[index : index + 6])))
        if index % 12 == 0:
            work(governed)
    work(governed)
    assert {row.state for row in governed.governor.inbox.newest(100)} == {"evaluated"}
    assert sum(row.deliveries for row in governed.governor.inbox.newest(100)) == len(sent)
    assert len(governed.actions()) == 1
    governed.governor.reconcile(governed.fence)
    assert len(governed.engine.mutations) == 1
