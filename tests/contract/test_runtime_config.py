from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contract.runtime_config import (
    CAPACITY_LADDER,
    CHUNK_SIZES,
    KNOBS,
    MAX_CONCURRENCY_CEILING,
    RuntimeConfig,
)


@pytest.mark.parametrize(
    ("given_value", "rung"),
    [("1.25", "1.25"), (1.25, "1.25"), ("1.250", "1.25"), (1, "1"), (1.0, "1"), ("2.0", "2"),
     (None, None)],
    ids=repr,
)  # fmt: skip
def test_every_spelling_of_a_rung_becomes_the_ladders_own(
    given_value: object, rung: object
) -> None:
    config = RuntimeConfig.model_validate({"capacity_factor": given_value})
    assert config.capacity_factor == rung


@pytest.mark.parametrize(
    "value",
    [
        1.3,
        "1.5000000000000002",
        0,
        -1,
        2.5,
        "abc",
        "",
        True,
        "1e400",
        "nan",
        "1/0",
        "11/10",
        "1e999999999",
        [],
        {},
    ],
)
def test_what_is_not_a_rung_is_refused_with_the_ladder(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        RuntimeConfig.model_validate({"capacity_factor": value})
    assert caught.value.errors()[0]["loc"] == ("capacity_factor",)


@given(st.one_of(st.text(max_size=12), st.floats(), st.integers(), st.none(), st.booleans()))
def test_any_capacity_factor_is_a_rung_or_a_validation_error(value: object) -> None:
    try:
        config = RuntimeConfig.model_validate({"capacity_factor": value})
    except ValidationError:
        return
    assert config.capacity_factor is None or config.capacity_factor in CAPACITY_LADDER


def test_capacity_is_an_exact_rational() -> None:
    assert RuntimeConfig(capacity_factor="1.1").capacity_fraction == Fraction(11, 10)
    assert RuntimeConfig(capacity_factor=None).capacity_fraction is None


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("cap_min", 0),
        ("cap_min", 4097),
        ("chunk_size", 64),
        ("chunk_size", 32768),
        ("chunk_size", 500),
        ("max_concurrency", 0),
        ("max_concurrency", MAX_CONCURRENCY_CEILING + 1),
        ("overflow_mode", "ignored"),
        ("overflow_policy", "steal"),
        ("capacity_domain", "node"),
        ("dispatch_dtype", "int4"),
        ("router_bias", "abc"),
        ("router_bias", "A" * 64),
        ("bias_update", "yes"),
        ("placement", ""),
        ("placement", "p" * 129),
        ("unheard_of", 1),
    ],
)
def test_a_value_out_of_bounds_names_its_knob(knob: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        RuntimeConfig.model_validate({knob: value})
    assert caught.value.errors()[0]["loc"] == (knob,)


@given(st.sampled_from(CHUNK_SIZES), st.integers(1, MAX_CONCURRENCY_CEILING))
def test_a_step_holds_every_decode_token(chunk: int, concurrency: int) -> None:
    if chunk >= concurrency:
        assert RuntimeConfig(chunk_size=chunk, max_concurrency=concurrency).chunk_size == chunk
    else:
        with pytest.raises(ValidationError, match=f"chunk_size {chunk} is below max_concurrency"):
            RuntimeConfig(chunk_size=chunk, max_concurrency=concurrency)


def test_hash_is_pinned_for_the_default() -> None:
    assert RuntimeConfig().content_hash() == (
        "440f40b39cc02e15a8995864aebd541bc232750c96ab78eef470096819381b0b"
    )


def test_hash_does_not_depend_on_spelling_or_order() -> None:
    one = RuntimeConfig.model_validate({"chunk_size": 256, "capacity_factor": 1.5})
    other = RuntimeConfig.model_validate({"capacity_factor": "1.50", "chunk_size": 256})
    assert one.content_hash() == other.content_hash()


def test_every_knob_is_part_of_the_hash() -> None:
    changed = {
        "capacity_factor": "2", "cap_min": 4, "overflow_mode": "virtual", "chunk_size": 1024,
        "overflow_policy": "spill", "capacity_domain": "per_source_rank", "max_concurrency": 8,
        "dispatch_dtype": "fp8_e4m3", "router_bias": "a" * 64, "bias_update": "on",
        "placement": "other",
    }  # fmt: skip
    assert set(changed) == set(KNOBS)
    hashes = {RuntimeConfig.model_validate({k: v}).content_hash() for k, v in changed.items()}
    assert len(hashes | {RuntimeConfig().content_hash()}) == len(KNOBS) + 1


def test_json_round_trip_keeps_the_hash() -> None:
    config = RuntimeConfig(capacity_factor=None, router_bias="b" * 64)
    again = RuntimeConfig.model_validate_json(config.model_dump_json())
    assert again == config
    assert again.content_hash() == config.content_hash()
