"""Generations that someone else wrote: adopted and pinned, never reconciled away. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contract.admin import ConfigDocument, ConfigState
from contract.runtime_config import RuntimeConfig
from controlplane.actuator.world import FOREIGN_CAUSES
from controlplane.policy.knob import Knob


@dataclass(frozen=True, slots=True)
class Adopted:
    """A foreign generation and the knobs that it moved."""

    document: ConfigDocument
    knobs: tuple[Knob, ...]

    @property
    def author(self) -> str:
        """Who wrote it, as far as it says."""
        return self.document.cause.actor or self.document.cause.kind.value


def adopted_since(
    documents: Sequence[ConfigDocument], seen: int | None, is_known: Callable[[str], bool]
) -> list[Adopted]:
    """Foreign generations after `seen`, oldest first; none when nothing was seen yet.

    Args:
        documents: stored generations, oldest first.
        seen: newest generation looked at before; None at the first sight of an engine.
        is_known: whether a cause id belongs to an action of this control plane.
    """
    if seen is None:
        return []
    before = {document.generation: document.config for document in documents}
    found = []
    for document in documents:
        foreign = document.cause.kind in FOREIGN_CAUSES and not is_known(document.cause.id)
        if document.generation <= seen or not foreign:
            continue
        previous = before.get(document.generation - 1)
        found.append(Adopted(document, moved(previous, document.config)))
    return found


def moved(before: RuntimeConfig | None, after: RuntimeConfig) -> tuple[Knob, ...]:
    """Governed knobs whose value differs; all of them when the config before is unknown."""
    if before is None:
        return tuple(Knob)
    return tuple(k for k in Knob if getattr(before, k.value) != getattr(after, k.value))


def baseline_of(state: ConfigState) -> RuntimeConfig:
    """The config to relax to: the present one, with every leased knob as it is to be restored."""
    restored = {lease.knob: lease.restore for lease in state.leases}
    present = state.document.config.model_dump(mode="json")
    return RuntimeConfig.model_validate({**present, **restored})
