"""What this engine can do with each knob, found by asking the core about every choice."""

from contract import CONTRACT_VERSION
from contract.admin import Capabilities, KnobCapability, KnobSupport
from contract.runtime_config import (
    CAP_MIN_CEILING,
    CAPACITY_LADDER,
    CHUNK_SIZES,
    KNOBS,
    MAX_CONCURRENCY_CEILING,
    BiasUpdate,
    CapacityDomain,
    DispatchDtype,
    OverflowMode,
    OverflowPolicy,
)
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.server.leases import KnobValue, knob_value, with_knob
from engine.server.live_config import LiveConfig

_CHOICES: dict[str, tuple[KnobValue, ...]] = {
    "capacity_factor": (*CAPACITY_LADDER, None),
    "chunk_size": CHUNK_SIZES,
    "overflow_mode": tuple(member.value for member in OverflowMode),
    "overflow_policy": tuple(member.value for member in OverflowPolicy),
    "capacity_domain": tuple(member.value for member in CapacityDomain),
    "dispatch_dtype": tuple(member.value for member in DispatchDtype),
    "bias_update": tuple(member.value for member in BiasUpdate),
}
_ANOTHER = "another"
_MAXIMA = {"cap_min": CAP_MIN_CEILING, "max_concurrency": MAX_CONCURRENCY_CEILING}


def capabilities(live: LiveConfig, config: EngineConfig, *, simulated: bool) -> Capabilities:
    """`GET capabilities` of this engine."""
    model = live.core.model
    return Capabilities(
        contract_version=CONTRACT_VERSION, engine_id=config.engine_id, group=config.group,
        model=model.name, role=config.role, simulated=simulated, ranks=config.ranks,
        moe_layers=model.moe_layers, experts=model.experts, top_k=model.top_k,
        context_tokens=model.context_tokens, knobs=tuple(_knob(live, knob) for knob in KNOBS),
    )  # fmt: skip


def _knob(live: LiveConfig, knob: str) -> KnobCapability:
    if knob in ("router_bias", "bias_update") and live.core.model.checkpoint_bias is None:
        reason = "the model has no selection bias"
        return KnobCapability(knob=knob, support=KnobSupport.ABSENT, reason=reason)
    if knob == "router_bias":
        return KnobCapability(knob=knob, support=KnobSupport.LIVE, reason="any stored version")
    if knob in _MAXIMA:
        return KnobCapability(knob=knob, support=KnobSupport.LIVE, minimum=1, maximum=_MAXIMA[knob])
    if knob == "placement":
        return _placement(live)
    return _by_choice(live, knob, _CHOICES[knob])


def _placement(live: LiveConfig) -> KnobCapability:
    ids = live.placements.ids()
    try:
        live.core.check(with_knob(live.configs.current.config, "placement", _ANOTHER))
    except EngineError as error:
        absent = KnobSupport.ABSENT
        return KnobCapability(knob="placement", support=absent, choices=ids, reason=error.detail)
    return KnobCapability(knob="placement", support=KnobSupport.LIVE, choices=ids)


def _by_choice(live: LiveConfig, knob: str, choices: tuple[KnobValue, ...]) -> KnobCapability:
    config = live.configs.current.config
    lightest = with_knob(config, "max_concurrency", 1)  # so that every chunk size is in bounds
    allowed: list[KnobValue] = []
    refusal = ""
    for choice in choices:
        if choice != knob_value(config, knob):
            try:
                live.core.check(with_knob(lightest, knob, choice))
            except EngineError as error:
                refusal = error.detail
                continue
        allowed.append(choice)
    can_move = len(allowed) > 1 or not refusal
    return KnobCapability(
        knob=knob, support=KnobSupport.LIVE if can_move else KnobSupport.ABSENT,
        choices=tuple(allowed), reason=refusal,
    )  # fmt: skip
