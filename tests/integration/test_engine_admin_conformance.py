"""`HttpEngineAdmin` and the governor's requests, against every engine that keeps the contract."""

import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from contract.admin import BiasMarkGood, CauseKind, ConfigState, Freeze, WhatIfRequest
from controlplane.actuator import requests
from controlplane.actuator.action import Action, Change, ChangeKind
from controlplane.actuator.dry_run_admin import DryRunAdmin
from controlplane.actuator.engine_admin import Mutation
from controlplane.actuator.http_engine_admin import HttpEngineAdmin
from controlplane.actuator.lease_renewal import due, renewal
from controlplane.errors import EngineRefusedError, EngineUnreachableError
from controlplane.policy.knob import Knob
from tests.support.closing_server import ClosingServer, relay_to
from tests.support.contract_engine import ContractEngine
from tests.support.contract_engine_app import contract_engine_app
from tests.support.governed import RAISE_C, make_action
from tests.support.hosted_echo import ADMIN_TOKEN, HostedEcho
from tests.support.loopback_server import served


@pytest.fixture(params=["contract engine", "engine server"])
def engine(request, tmp_path) -> Iterator[tuple[str, str]]:
    """An engine's URL and its admin token."""
    if request.param == "contract engine":
        made = ContractEngine()
        app: Any = contract_engine_app(made)
        token = made.token
    else:
        app, token = HostedEcho(tmp_path), ADMIN_TOKEN
    with served(app) as url:
        yield url, token


@pytest.fixture
def admin(engine) -> Iterator[HttpEngineAdmin]:
    made = HttpEngineAdmin("engine-0", *engine)
    yield made
    made.close()


def applying(state: ConfigState, change: Change = RAISE_C, **more) -> Mutation:
    action = make_action(0.0, change=change, action_id=f"act-{secrets.token_hex(4)}", **more)
    return requests.apply_intent(action, action.targets[0], state, 0.0).mutation


def bias_change(admin: HttpEngineAdmin) -> Change:
    good = admin.biases().last_known_good or admin.biases().configured_hash
    return Change(
        kind=ChangeKind.BIAS_ROLLBACK, knob=Knob.ROUTER_BIAS, before=good, after=good, direction=-1
    )


def test_a_change_is_applied_once_and_found_by_its_cause(admin):
    mutation = applying(admin.config())
    first = admin.send(mutation, epoch=3)
    again = admin.send(mutation, epoch=3)
    assert again == first
    state = admin.config()
    assert state.document.config.capacity_factor == "1.5"
    assert state.epoch_seen == 3
    causes = [document.cause for document in admin.history().documents]
    assert [cause.id for cause in causes].count(mutation.key) == 1
    assert causes[-1].kind is CauseKind.DECISION


def test_a_change_whose_answer_was_lost_with_a_stale_connection_is_applied_once(engine, admin):
    url, token = engine
    with ClosingServer(relay_to(urlsplit(url).port)).running() as server:
        behind = HttpEngineAdmin("engine-0", server.url, token)
        mutation = applying(behind.config())
        told = behind.send(mutation, epoch=3)
        assert sum(request.startswith(b"PUT") for request in server.requests) == 2
        behind.close()
    state = admin.config()
    assert state.document.generation == told.observed_generation
    causes = [document.cause for document in admin.history().documents]
    assert [cause.id for cause in causes].count(mutation.key) == 1


def test_a_stale_etag_and_a_stale_epoch_are_refused_by_name(admin):
    old = admin.config()
    admin.send(applying(old), epoch=5)
    with pytest.raises(EngineRefusedError) as stale:
        admin.send(applying(old), epoch=5)
    assert stale.value.answer.status == 412
    with pytest.raises(EngineRefusedError) as fenced:
        admin.send(applying(admin.config(), _lower()), epoch=4)
    assert (fenced.value.answer.status, fenced.value.answer.type) == (409, "stale-epoch")


def test_a_key_with_another_body_is_refused(admin):
    mutation = applying(admin.config())
    admin.send(mutation, epoch=1)
    other = mutation.model_copy(update={"body": applying(admin.config(), _lower()).body})
    with pytest.raises(EngineRefusedError) as refused:
        admin.send(other, epoch=1)
    assert refused.value.answer.status == 422


def test_a_revert_restores_the_exact_config(admin):
    before = admin.config()
    action = _applied(admin)
    admin.send(
        requests.revert_intent(action, action.targets[0], admin.config(), 0.0).mutation, epoch=1
    )
    assert admin.config().document.config_hash == before.document.config_hash


def test_a_lease_is_ours_to_renew_without_a_generation(admin):
    change = RAISE_C.model_copy(update={"lease_seconds": 600.0})
    admin.send(applying(admin.config(), change), epoch=1)
    state = admin.config()
    leases = due(state, lease_seconds=3600.0, silent_seconds=0.0)
    assert [lease.knob for lease in leases] == ["capacity_factor"]
    assert leases[0].restore == "1.25"
    result = admin.send(renewal(state, leases, lease_seconds=3600.0), epoch=1)
    assert result.renewed
    assert admin.config().document.generation == state.document.generation
    assert admin.config().leases[0].expires_in_seconds > 600
    renewed = due(admin.config(), lease_seconds=7200.1, silent_seconds=0.0)
    assert len(renewed) == 1, "a renewed lease is still recognised as ours"


def test_a_bias_can_be_rolled_back_fetched_and_given_back(admin):
    state = admin.config()
    good = admin.biases().configured_hash
    assert good is not None
    admin.send(applying(state, bias_change(admin)), epoch=1)
    assert admin.biases().live_hash == good
    blob = admin.bias_blob(good)
    upload = Mutation(
        method="PUT", path=f"router-bias/{good}", blob=good, if_match=admin.config().etag,
        key="upload-1",
    )  # fmt: skip
    admin.send(upload, epoch=1, blob=blob)
    assert good in {info.bias_hash for info in admin.biases().versions}


def test_an_unknown_bias_is_refused(admin):
    change = bias_change(admin).model_copy(update={"after": "c" * 64})
    with pytest.raises(EngineRefusedError) as refused:
        admin.send(applying(admin.config(), change), epoch=1)
    assert refused.value.answer.status == 404


def test_a_version_is_marked_good(admin):
    live = admin.biases().live_hash
    body = BiasMarkGood(bias_hash=live, actor="kim").model_dump(mode="json")
    etag = admin.config().etag
    admin.send(
        Mutation(method="POST", path="router-bias/mark-good", body=body, if_match=etag, key="m"),
        epoch=0,
    )
    assert admin.biases().last_known_good == live


def test_a_frozen_engine_refuses_until_it_is_thawed(admin):
    body = Freeze(reason="trimtab:drill", actor="kim").model_dump(mode="json")
    etag = admin.config().etag
    admin.send(Mutation(method="POST", path="freeze", body=body, if_match=etag, key="f"), epoch=0)
    state = admin.config()
    assert (state.frozen, state.freeze_reason) == (True, "trimtab:drill")
    with pytest.raises(EngineRefusedError) as refused:
        admin.send(applying(state), epoch=1)
    assert refused.value.answer.status == 423
    admin.send(Mutation(method="DELETE", path="freeze", if_match=state.etag, key="t"), epoch=0)
    assert not admin.config().frozen


def test_a_dry_run_changes_nothing(admin):
    state = admin.config()
    result = DryRunAdmin(admin).send(applying(state), epoch=0)
    assert result.dry_run
    DryRunAdmin(admin).send(applying(state, bias_change(admin)), epoch=0)
    assert admin.config().document.generation == state.document.generation


def test_what_if_probe_and_capabilities_answer(admin):
    biases = admin.biases()
    admin.what_if(WhatIfRequest(bias_hash=biases.configured_hash))
    assert admin.probe().tokens > 0
    knobs = {capability.knob for capability in admin.capabilities().knobs}
    assert {knob.value for knob in Knob} <= knobs


def test_silence_is_unknown_not_a_refusal():
    admin = HttpEngineAdmin("engine-0", "http://127.0.0.1:9", "t")
    with pytest.raises(EngineUnreachableError, match="did not answer"):
        admin.config()
    admin.close()


def _lower() -> Change:
    return RAISE_C.model_copy(update={"before": "1.5", "after": "1.1"})


def _applied(admin: HttpEngineAdmin) -> Action:
    action = make_action(0.0)
    state = admin.config()
    admin.send(requests.apply_intent(action, action.targets[0], state, 0.0).mutation, epoch=1)
    return action
