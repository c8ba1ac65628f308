"""The shape of one MoE layer: what a checkpoint says of its router and experts."""

from dataclasses import dataclass
from enum import StrEnum

from engine.errors import CheckpointError


class RouterKind(StrEnum):
    """How router logits become scores and a choice; one file of `engine.moe.router` each."""

    SOFTMAX = "softmax"
    SIGMOID_BIAS = "sigmoid_bias"
    GROUP_LIMITED = "group_limited"
    SIGMOID_TOP1 = "sigmoid_top1"


@dataclass(frozen=True, slots=True)
class MoESpec:
    """One MoE layer's shape.

    Attributes:
        hidden: d, width of the residual stream.
        expert_width: f, intermediate width of one routed expert.
        num_experts: E, logical experts.
        top_k: k, experts of a token.
        router: the router kind.
        renormalise: gates of a token are divided by their sum.
        routed_scale: factor on the gates after renormalising.
        num_groups, groups_kept: of `group_limited`: experts lie in `num_groups` equal runs of ids,
            and a token may use the `groups_kept` best runs.
        gate_on_input: the gate scales the expert's input in place of its output (Llama-4).
    """

    hidden: int
    expert_width: int
    num_experts: int
    top_k: int
    router: RouterKind
    renormalise: bool = True
    routed_scale: float = 1.0
    num_groups: int = 1
    groups_kept: int = 1
    gate_on_input: bool = False

    def __post_init__(self) -> None:
        """Refuse a shape that no router could serve, naming the field."""
        if not 1 <= self.top_k <= self.num_experts:
            raise CheckpointError(
                f"top_k {self.top_k} is outside 1..{self.num_experts} experts",
                field="top_k", value=self.top_k, bound=self.num_experts,
            )  # fmt: skip
        if self.num_experts % self.num_groups or not 1 <= self.groups_kept <= self.num_groups:
            raise CheckpointError(
                f"{self.num_experts} experts in {self.num_groups} groups, {self.groups_kept} kept: "
                "groups must be equal, and as many kept as there are or fewer",
                field="num_groups", value=self.num_groups, bound=self.num_experts,
            )  # fmt: skip
        if self.top_k > self.reachable_experts:
            raise CheckpointError(
                f"top_k {self.top_k} exceeds the {self.reachable_experts} experts of "
                f"{self.groups_kept} groups",
                field="top_k", value=self.top_k, bound=self.reachable_experts,
            )  # fmt: skip
        if self.router is RouterKind.SIGMOID_TOP1 and self.top_k != 1:
            raise CheckpointError(
                f"router sigmoid_top1 takes top_k 1, not {self.top_k}",
                field="top_k", value=self.top_k, bound=1,
            )  # fmt: skip

    @property
    def reachable_experts(self) -> int:
        """Experts that one token may use: those of the groups it keeps."""
        return self.num_experts // self.num_groups * self.groups_kept
