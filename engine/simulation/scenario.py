"""A scenario: an engine, its traffic, events on a timeline, and the labelled truth. TOML files."""

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError

from contract.model import ContractModel
from contract.runtime_config import OverflowMode, Rung, RuntimeConfig
from engine.errors import BadRequestError
from engine.simulation.cost.presets import preset
from engine.simulation.cost.step import Layout
from engine.simulation.cost.topology import topology
from engine.simulation.events import AnyEvent
from engine.simulation.model import BIAS_LEVEL, SimulatedModel
from engine.simulation.serving.traffic import LENGTHS, FittedWorkload
from engine.simulation.settings import SimulationSettings, default_runtime

FOLDER = Path(__file__).parent / "scenarios"
_BASIS = r"^(measured|fitted|assumed|labelled)"
Cause = Literal["bias", "traffic", "placement", "slow_rank", "unknown"]


class EngineSpec(ContractModel):
    """The engine of a scenario; see `SimulationSettings`, `SimulatedModel.make`, `RuntimeConfig`.

    Attributes:
        layers: MoE layers told of, None for all of the preset.
        per_rank: running sequences a rank, at most.
    """

    preset: str = "deepseek-v3"
    topology: str = "hgx-h100"
    ranks: int = Field(default=32, ge=1, le=512)
    layers: int | None = Field(default=4, ge=1)
    sigma: float | None = Field(default=None, ge=0)
    biased: bool | None = True
    bias_level: float = BIAS_LEVEL
    role: Literal["mixed", "prefill", "decode"] = "mixed"
    overlap: bool = False
    per_rank: int = Field(default=32, ge=1)
    capacity_factor: Rung | None = "1.25"
    overflow_mode: OverflowMode = OverflowMode.ENFORCED
    model_seed: int = 0


class TrafficSpec(ContractModel):
    """The requests of a scenario; see `FittedWorkload`."""

    per_second: float = Field(default=20.0, gt=0)
    lengths: str = "conversation"
    arrival_cv: float = Field(default=1.1, gt=0)
    daily: float = Field(default=0.0, ge=0, le=1)
    fixed_lengths: tuple[int, int] | None = None


class Truth(ContractModel):
    """What is wrong, from when to when, and what a good governor does. Labels, not measurements.

    Attributes:
        onset, end: seconds on the scenario's clock; None when nothing is wrong.
        causes: what an attribution has to say, all of it; "unknown" when it must name none; empty
            when nothing is wrong.
        detectors, signs: one of these has to show: a detector that fires, an SLO in breach, or
            "stale" telemetry.
        scope: where, in words.
        knobs: the changes that mend it, one of which is wanted; empty when none does.
        eases: changes that mend nothing and are right all the same while it lasts.
        action: the good action, in words.
    """

    onset: float | None = None
    end: float | None = None
    causes: tuple[Cause, ...] = ()
    detectors: tuple[str, ...] = ()
    signs: tuple[Literal["ttft", "tpot", "overflow", "stale"], ...] = ()
    scope: str = ""
    knobs: tuple[str, ...] = ()
    eases: tuple[str, ...] = ()
    action: str = "none"


class Scenario(ContractModel):
    """One scenario.

    Attributes:
        warm_seconds: the healthy beginning, from which the load reference is taken.
        seconds: its length. tick_seconds: of a window in process.
        basis: what a number rests on, by its name: measured, fitted, assumed, or labelled (wanted
            by the story that it tells). Numbers that are not named are assumed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    warm_seconds: float = Field(default=600.0, gt=0)
    seconds: float = Field(gt=0)
    tick_seconds: float = Field(default=10.0, gt=0, le=600)
    engine: EngineSpec = EngineSpec()
    traffic: TrafficSpec = TrafficSpec()
    events: tuple[AnyEvent, ...] = ()
    truth: Truth = Truth()
    basis: dict[str, Annotated[str, Field(pattern=_BASIS)]] = Field(default={})

    @cached_property
    def model(self) -> SimulatedModel:
        """The model that it serves."""
        spec = self.engine
        return SimulatedModel.make(
            preset(spec.preset), seed=spec.model_seed, layers=spec.layers, sigma=spec.sigma,
            biased=spec.biased, bias_level=spec.bias_level,
        )  # fmt: skip

    def runtime(self) -> RuntimeConfig:
        """The first config of its engine."""
        spec = self.engine
        config = default_runtime(spec.ranks, per_rank=spec.per_rank, mode=spec.overflow_mode)
        return config.model_copy(update={"capacity_factor": spec.capacity_factor})

    def settings(
        self, *, engine_id: str = "engine-0", group: str = "group-0", seed: int = 0,
        boot: str = "simulated",
    ) -> SimulationSettings:  # fmt: skip
        """One of its engines."""
        spec, traffic = self.engine, self.traffic
        if traffic.lengths not in LENGTHS:
            raise BadRequestError(
                f"lengths {traffic.lengths!r} is unknown; known: {', '.join(LENGTHS)}",
                field="traffic.lengths", value=traffic.lengths,
            )  # fmt: skip
        return SimulationSettings(
            engine_id=engine_id, group=group, model=self.model, runtime=self.runtime(),
            workload=FittedWorkload(
                traffic.per_second, LENGTHS[traffic.lengths], traffic.arrival_cv, traffic.daily,
                traffic.fixed_lengths,
            ),
            role=spec.role, where=topology(spec.topology),
            layout=Layout(spec.ranks, overlap=spec.overlap),
            seed=seed, boot=boot, period_seconds=max(10.0, self.tick_seconds),
        )  # fmt: skip


def names() -> tuple[str, ...]:
    """Every scenario that ships."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def load(name: str) -> Scenario:
    """A scenario by name, or from a TOML file.

    Raises:
        BadRequestError: there is no such scenario, or the file is not one.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        body = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        if name.endswith(".toml"):
            raise BadRequestError(
                f"scenario file {path} cannot be read: {error.strerror}", field="scenario",
                value=name,
            ) from None  # fmt: skip
        raise BadRequestError(
            f"scenario {name!r} is unknown; known: {', '.join(names())}",
            field="scenario", value=name,
        ) from None  # fmt: skip
    except ValueError as error:
        raise BadRequestError(f"scenario file {path}: {error}", field="scenario") from None
    try:
        return Scenario.model_validate({"name": path.stem, **body})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise BadRequestError(
            f"scenario {path.stem}: {where or 'file'}: {said}", field=where or "file"
        ) from None
