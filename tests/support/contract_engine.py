"""A small engine that keeps the admin contract; `contract_engine_app` serves it over HTTP.

It has no model. Tests read `engine.mutations` for what was truly applied, and set `engine.trouble`
to make it lose answers, refuse, or be slow.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import BaseModel

from contract.admin import (
    BiasInfo,
    BiasList,
    BiasMarkGood,
    BiasOrigin,
    BiasRollback,
    BiasStatus,
    Capabilities,
    Cause,
    CauseKind,
    ConfigDocument,
    ConfigPut,
    ConfigRollback,
    ConfigState,
    Freeze,
    KnobCapability,
    KnobSupport,
    Lease,
    MutationResult,
    RankAck,
    WhatIfResponse,
    WhatIfSide,
)
from contract.headers import config_etag
from contract.problem import Problem
from contract.runtime_config import KNOBS, BiasUpdate, RuntimeConfig

LAYERS, EXPERTS = 2, 8


class RefusalError(Exception):
    """A problem answer."""

    def __init__(self, status: int, kind: str, detail: str, current: Any = None) -> None:
        super().__init__(detail)
        self.problem = Problem(type=kind, title=kind, status=status, detail=detail, current=current)


@dataclass
class Trouble:
    """What goes wrong next; each is used once unless it says otherwise."""

    lose_answer: bool = False
    """Apply the next mutation, then answer 502 with no problem body, as a dying proxy would."""
    lose_request: bool = False
    """Answer 502 to the next mutation without applying it."""
    refuse: Problem | None = None
    """Refuse every mutation with this (stays)."""
    down: bool = False
    """Answer 502 to everything (stays)."""
    delay_seconds: float = 0.0
    """Delay of every mutation (stays)."""


@dataclass(frozen=True)
class Applied:
    """A mutation that changed the engine."""

    key: str
    path: str
    epoch: int
    generation: int
    config: RuntimeConfig


@dataclass
class ContractEngine:
    """The state of one engine."""

    engine_id: str = "engine-0"
    group: str = "group-0"
    token: str = "engine-secret"
    now: Callable[[], float] = lambda: 1_700_000_000.0
    trouble: Trouble = field(default_factory=Trouble)
    mutations: list[Applied] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    documents: list[ConfigDocument] = field(default_factory=list)
    biases: dict[str, np.ndarray] = field(default_factory=dict)
    infos: dict[str, BiasInfo] = field(default_factory=dict)
    answers: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    leases: dict[str, tuple[str | int | None, float, str]] = field(default_factory=dict)
    live_bias: str = ""
    last_known_good: str | None = None
    epoch_seen: int = 0
    frozen: bool = False
    freeze_reason: str = ""

    def __post_init__(self) -> None:
        good = self.store_bias(np.zeros((LAYERS, EXPERTS), np.float32), BiasOrigin.CHECKPOINT)
        self.live_bias, self.last_known_good = good, good
        config = RuntimeConfig(router_bias=good)
        self.commit(config, Cause(kind=CauseKind.BOOT))

    @property
    def document(self) -> ConfigDocument:
        return self.documents[-1]

    @property
    def config(self) -> RuntimeConfig:
        return self.document.config

    @property
    def etag(self) -> str:
        return config_etag(self.document.generation, self.document.config_hash)

    def commit(self, config: RuntimeConfig, cause: Cause) -> ConfigDocument:
        generation = len(self.documents)
        document = ConfigDocument(
            generation=generation, config_hash=config.content_hash(), config=config,
            parent=generation - 1 if generation else None, cause=cause,
            committed_unix_seconds=self.now(), effective_at_step=generation * 10,
        )  # fmt: skip
        self.documents.append(document)
        if config.router_bias is not None:
            self.live_bias = config.router_bias
        return document

    def change(
        self, actor: str = "kim", kind: CauseKind = CauseKind.OPERATOR, **knobs: Any
    ) -> None:
        """A generation that someone else wrote."""
        config = RuntimeConfig.model_validate({**self.config.model_dump(), **knobs})
        self.commit(config, Cause(kind=kind, actor=actor, id="by-hand"))

    def store_bias(self, bias: np.ndarray, origin: BiasOrigin) -> str:
        bias_hash = hashlib.sha256(np.ascontiguousarray(bias, np.float32).tobytes()).hexdigest()
        if bias_hash not in self.biases:
            self.biases[bias_hash] = bias
            self.infos[bias_hash] = BiasInfo(
                bias_hash=bias_hash, version=len(self.biases), origin=origin,
                status=BiasStatus.CANDIDATE, created_unix_seconds=self.now(), layers=LAYERS,
                experts=EXPERTS, distance=float(np.abs(bias).max()),
                max_abs=float(np.abs(bias).max()),
            )  # fmt: skip
        return bias_hash

    def drift(self, size: float = 0.5) -> str:
        """A regulator moves the live bias; the configured one stays."""
        moved = np.zeros((LAYERS, EXPERTS), np.float32)
        moved[:, 0] = size
        self.live_bias = self.store_bias(moved, BiasOrigin.REGULATOR)
        return self.live_bias

    def expire_lease(self, knob: str) -> None:
        """As if the monotonic clock had passed the lease's end."""
        restore, _, _ = self.leases.pop(knob)
        config = RuntimeConfig.model_validate({**self.config.model_dump(), knob: restore})
        self.commit(config, Cause(kind=CauseKind.LEASE, reason=f"lease on {knob} expired"))

    def state(self) -> ConfigState:
        leases = tuple(
            Lease(knob=knob, restore=restore, expires_in_seconds=seconds, holder=holder)
            for knob, (restore, seconds, holder) in self.leases.items()
        )
        return ConfigState(
            document=self.document, etag=self.etag, epoch_seen=self.epoch_seen,
            frozen=self.frozen, freeze_reason=self.freeze_reason, leases=leases,
        )  # fmt: skip

    def bias_list(self) -> BiasList:
        return BiasList(
            configured_hash=self.config.router_bias, live_hash=self.live_bias,
            last_known_good=self.last_known_good, versions=tuple(self.infos.values()),
        )  # fmt: skip

    def result(self, *, dry_run: bool = False, renewed: bool = False) -> MutationResult:
        document = self.document
        return MutationResult(
            observed_generation=document.generation, config_hash=document.config_hash,
            etag=self.etag, effective_at_step=document.effective_at_step, dry_run=dry_run,
            ranks=(RankAck(rank=0, generation=document.generation, step=0),), renewed=renewed,
        )  # fmt: skip

    def put_config(self, raw: bytes, *, dry_run: bool) -> MutationResult:
        body = ConfigPut.model_validate_json(raw)
        if body.config.router_bias is not None and body.config.router_bias not in self.biases:
            raise RefusalError(404, "not-found", f"bias {body.config.router_bias} is not stored")
        if dry_run:
            return self.result(dry_run=True)
        before = self.config
        holder = f"{body.cause.kind}:{body.cause.id or body.cause.actor}"
        for knob in KNOBS:
            if knob in body.lease_seconds:
                restore = self.leases[knob][0] if knob in self.leases else getattr(before, knob)
                self.leases[knob] = (restore, body.lease_seconds[knob], holder)
            elif getattr(before, knob) != getattr(body.config, knob):
                self.leases.pop(knob, None)
        if body.config == before and body.lease_seconds:
            return self.result(renewed=True)
        self.commit(body.config, body.cause)
        return self.result()

    def roll_back(self, raw: bytes) -> MutationResult:
        body = ConfigRollback.model_validate_json(raw)
        if body.to >= len(self.documents):
            raise RefusalError(404, "not-found", f"generation {body.to} is not stored")
        self.commit(self.documents[body.to].config, body.cause)
        return self.result()

    def roll_bias_back(self, raw: bytes) -> MutationResult:
        body = BiasRollback.model_validate_json(raw)
        if body.bias_hash not in self.biases:
            raise RefusalError(404, "not-found", f"bias {body.bias_hash} is not stored")
        config = self.config.model_copy(
            update={"router_bias": body.bias_hash, "bias_update": BiasUpdate.OFF}
        )
        self.commit(config, body.cause)
        return self.result()

    def mark_good(self, raw: bytes) -> MutationResult:
        body = BiasMarkGood.model_validate_json(raw)
        wanted = body.bias_hash or self.live_bias
        if wanted not in self.biases:
            raise RefusalError(404, "not-found", f"bias {wanted} is not stored")
        self.last_known_good = wanted
        return self.result()

    def freeze(self, raw: bytes) -> MutationResult:
        self.freeze_reason = Freeze.model_validate_json(raw).reason
        self.frozen = True
        return self.result()

    def unfreeze(self, _raw: bytes) -> MutationResult:
        self.frozen, self.freeze_reason = False, ""
        return self.result()

    def what_if(self) -> WhatIfResponse:
        drifted = self.live_bias != self.last_known_good

        def side(tau: float) -> WhatIfSide:
            return WhatIfSide(
                tau=(tau,) * LAYERS, tau_standard_error=(0.01,) * LAYERS,
                overflow_ratio=(tau / 10,) * LAYERS, overflow_ratio_total=tau / 10,
                max_over_mean=(1 + tau,) * LAYERS,
            )  # fmt: skip

        return WhatIfResponse(
            sampled_steps=16, sampled_tokens=4096, live=side(0.9 if drifted else 0.1),
            counterfactual=side(0.1), sufficient=True,
        )  # fmt: skip

    def capabilities(self) -> Capabilities:
        return Capabilities(
            contract_version="1.0", engine_id=self.engine_id, group=self.group, model="tiny",
            role="mixed", simulated=True, ranks=1, moe_layers=LAYERS, experts=EXPERTS, top_k=2,
            context_tokens=128,
            knobs=tuple(KnobCapability(knob=knob, support=KnobSupport.LIVE) for knob in KNOBS),
        )  # fmt: skip


def as_json(model: BaseModel) -> Any:
    """The JSON value of a contract body."""
    return json.loads(model.model_dump_json())
