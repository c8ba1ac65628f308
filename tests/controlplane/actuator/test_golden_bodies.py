"""The control plane reads what an engine was agreed to say."""

import httpx
import pytest

from contract.admin import Capabilities, ConfigState
from controlplane.actuator.http_engine_admin import HttpEngineAdmin
from controlplane.errors import EngineRefusedError
from tests.support.golden import golden, golden_text

MEDIA = {"capabilities": "application/json", "problem": "application/problem+json"}


def admin_that_gets(name: str, status: int = 200) -> HttpEngineAdmin:
    headers = {"content-type": MEDIA.get(name, "application/json")}
    transport = httpx.MockTransport(
        lambda _request: httpx.Response(status, text=golden_text(name), headers=headers)
    )
    return HttpEngineAdmin("engine-0", "http://engine", "token", transport=transport)


def test_golden_config_state_is_understood() -> None:
    state = admin_that_gets("config_state").config()
    assert state == ConfigState.model_validate(golden("config_state"))
    assert state.leases[0].knob == "capacity_factor"


def test_golden_capabilities_are_understood() -> None:
    capabilities = admin_that_gets("capabilities").capabilities()
    assert capabilities == Capabilities.model_validate(golden("capabilities"))


def test_golden_problem_is_a_refusal_with_its_bound() -> None:
    with pytest.raises(EngineRefusedError) as caught:
        admin_that_gets("problem", status=409).config()
    assert caught.value.answer.type == "stale-epoch"
    assert caught.value.answer.current == golden("problem")["current"]
