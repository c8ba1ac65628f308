import pytest

from controlplane.errors import InvalidInputError
from controlplane.policy.builtin import BUILTIN, DEFAULT, FAST
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.policy import Policy, dump_policy, load_policy


@pytest.mark.parametrize("name", BUILTIN)
def test_yaml_gives_the_same_policy_back(name):
    assert load_policy(dump_policy(BUILTIN[name])) == BUILTIN[name]


def test_a_bias_rollback_waits_for_approval_by_default_and_is_automatic_in_the_demo():
    assert DEFAULT.mode(Knob.ROUTER_BIAS) is Mode.APPROVE
    assert FAST.mode(Knob.ROUTER_BIAS) is Mode.AUTO
    assert {DEFAULT.mode(knob) for knob in Knob if knob is not Knob.ROUTER_BIAS} == {Mode.AUTO}


def test_a_knob_that_is_not_named_is_off():
    assert Policy(name="bare", knobs={}).mode(Knob.CHUNK_SIZE) is Mode.OFF


def test_a_partial_file_takes_the_defaults():
    policy = load_policy(
        "name: mine\nknobs:\n  chunk_size: {mode: shadow, act_cooldown_seconds: 9, "
        "relax_cooldown_seconds: 9}\ndetectors: {tau_threshold: 0.4}\n"
    )
    assert policy.detectors.tau_threshold == 0.4
    assert policy.verify == DEFAULT.verify


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: [", "not YAML"),
        ("just text", "must be a mapping"),
        ("name: x\nknobs: {}\nbogus: 1", "bogus"),
        ("name: Bad Name\nknobs: {}", "name"),
        ("name: x\nknobs: {warp: {}}", "warp"),
        ("name: x\nknobs: {}\nformat: 2", "format 2 is not known"),
        ("name: x\nknobs: {}\ncapacity: {target_ratio: 0.02}", "deadband_ratio 0.03 is above"),
        ("name: x\nknobs: {}\ncapacity: {highest: '1.3'}", "not a rung"),
        ("name: x\nknobs: {}\ncapacity: {lowest: '2', highest: '1.5'}", "lowest 2 is above"),
        ("name: x\nknobs: {}\nchunk: {minimum: 300}", "minimum 300 is not a chunk size"),
        ("name: x\nknobs: {}\nchunk: {minimum: 4096}", "minimum 4096 is above maximum 2048"),
        ("name: x\nknobs: {}\nlease_seconds: 7200", "lease_seconds"),
        ("name: x\nknobs: {}\ndetectors: {windows_needed: 9}", "windows_needed 9 is above"),
    ],
)
def test_a_mistake_is_named_with_its_field(text, told):
    with pytest.raises(InvalidInputError, match=told):
        load_policy(text)
