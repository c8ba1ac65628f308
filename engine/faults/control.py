"""Inject and clear faults on a running engine; satisfies `engine.server.core.FaultControl`."""

from collections.abc import Callable, Mapping
from typing import Protocol

from contract.admin import FaultInjection
from engine.errors import BadRequestError
from engine.faults.bias_ramp import BiasRamp
from engine.faults.names import BIAS_RAMP, FAULTS, SLOW_RANK, WRONG_SIGN, FaultSide, FaultSpec
from engine.faults.slow_rank import SlowRank
from engine.faults.wrong_sign import WrongSignRegulator
from engine.worker.step_hook import StepHook

_HOOKS: dict[str, Callable[..., StepHook]] = {
    WRONG_SIGN: WrongSignRegulator,
    BIAS_RAMP: BiasRamp,
    SLOW_RANK: SlowRank,
}


class HookedEngine(Protocol):
    """What faults need of the engine core; `engine.llm_engine.engine.LLMEngine` has it."""

    async def set_hook(self, name: str, hook: StepHook | None) -> None:
        """Start a step hook on every rank, or stop it (None)."""
        ...

    @property
    def active_hooks(self) -> tuple[str, ...]:
        """Hooks that run."""
        ...


class Faults:
    """The faults that an engine was started with.

    Args:
        engine: where they are injected.
        names: which may be; faults of the load side are accepted as labels and do nothing here.

    Raises:
        BadRequestError: a name is unknown.
    """

    def __init__(self, engine: HookedEngine, names: frozenset[str]) -> None:
        unknown = sorted(names - set(FAULTS))
        if unknown:
            raise BadRequestError(
                f"unknown fault {unknown[0]!r}; known: {', '.join(sorted(FAULTS))}",
                field="faults", value=unknown[0], bound=sorted(FAULTS),
            )  # fmt: skip
        self.names = names
        self._engine = engine
        self._injected: dict[str, FaultInjection] = {}

    async def inject(self, name: str, params: Mapping[str, float]) -> None:
        """Start a fault; a running one of the same name starts anew.

        Raises:
            BadRequestError: the fault is not allowed here, or a parameter is unknown or out of
                bounds.
        """
        if name not in self.names:
            enabled = ", ".join(sorted(self.names)) or "none"
            raise BadRequestError(
                f"fault {name!r} is not enabled; enabled: {enabled}",
                field="name", value=name, bound=sorted(self.names),
            )  # fmt: skip
        spec = FAULTS[name]
        values = _checked(spec, params)
        if spec.side is FaultSide.ENGINE:
            await self._engine.set_hook(name, _HOOKS[name](**values))
        self._injected[name] = FaultInjection(name=name, params=values)

    async def clear(self, name: str) -> None:
        """Stop a fault; what it broke stays broken."""
        injected = self._injected.pop(name, None)
        if injected is not None and FAULTS[name].side is FaultSide.ENGINE:
            await self._engine.set_hook(name, None)

    def active(self) -> tuple[FaultInjection, ...]:
        """Faults that run now; a commit that reloaded the bias has ended those that moved it."""
        running = self._engine.active_hooks
        return tuple(
            each
            for name, each in self._injected.items()
            if FAULTS[name].side is FaultSide.LOAD or name in running
        )


def _checked(spec: FaultSpec, params: Mapping[str, float]) -> dict[str, float]:
    for name, value in params.items():
        known = spec.parameters.get(name)
        if known is None:
            raise BadRequestError(
                f"fault {spec.name} has no parameter {name!r}; it has "
                f"{', '.join(spec.parameters)}",
                field=f"params.{name}", value=value, bound=sorted(spec.parameters),
            )  # fmt: skip
        if not known.least <= value <= known.most:
            raise BadRequestError(
                f"{name} {value} is outside {known.least} .. {known.most}",
                field=f"params.{name}", value=value, bound=[known.least, known.most],
            )  # fmt: skip
    return {name: known.default for name, known in spec.parameters.items()} | dict(params)
