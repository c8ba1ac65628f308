"""What an engine is: one that speaks the contract, or one that is only read by its metrics."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class EngineKind(StrEnum):
    """The kinds that can be configured."""

    TRIMTAB = "trimtab"
    VLLM = "vllm"
    SGLANG = "sglang"

    @property
    def is_observed(self) -> bool:
        """Whether it is observe-only: it has no admin API that could be acted on."""
        return self is not EngineKind.TRIMTAB

    @property
    def spoken(self) -> str:
        """Its name as people write it."""
        return _SPOKEN[self]

    @property
    def why_observed(self) -> str:
        """Why nothing is ever changed on an observe-only engine, as a sentence without its end."""
        return f"observe-only: {self.spoken} is read by its metrics and is never acted on"


_SPOKEN: Mapping[EngineKind, str] = MappingProxyType(
    {EngineKind.TRIMTAB: "Trimtab", EngineKind.VLLM: "vLLM", EngineKind.SGLANG: "SGLang"}
)
