"""What the engine says to a rank, and what a rank answers. Small picklable values over a socket.

The engine numbers every prepared plan with an *edition*; a step names the edition it runs under, so
all ranks switch at one step or none does. Editions are not generations: a plan that only moves the
last known good has the generation it had before.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.moe.spec import MoESpec
from engine.telemetry.counts import RankCounts
from engine.telemetry.phase_timer import StepPhases
from engine.worker.step_hook import StepHook

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RankSpec:
    """What a rank process is started with; `rendezvous` is a file that all ranks meet at."""

    rank: int
    config: EngineConfig
    rendezvous: str


@dataclass(frozen=True, slots=True)
class StepBatch:
    """One rank's share of a step, `engine.model.packed.PackedSequences`: S sequences, T tokens.

    Attributes:
        token_ids: int64 [T], sequence after sequence.
        num_tokens, context_lengths, buckets: int64 [S]; tokens in this step, tokens after it,
            request-hash bucket.
        is_decode, wants_token: bool [S].
        blocks, num_blocks: int64 [sum], [S]: block tables end to end, and their lengths.
        temperature, top_p: float32 [S]; seed: int64 [S], of this position alone; how the
            next token is drawn.
    """

    token_ids: Ints
    num_tokens: Ints
    context_lengths: Ints
    buckets: Ints
    is_decode: npt.NDArray[np.bool_]
    wants_token: npt.NDArray[np.bool_]
    blocks: Ints
    num_blocks: Ints
    temperature: Floats
    top_p: Floats
    seed: Ints

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """One run of bytes: eleven arrays of their own would take longer to pickle than to use."""
        arrays = [getattr(self, name) for name, _ in _BATCH_LAYOUT]
        data = bytearray().join(values.tobytes() for values in arrays)
        return _read_batch, (data, [len(values) for values in arrays])


_BATCH_LAYOUT: tuple[tuple[str, np.dtype[Any]], ...] = (
    ("token_ids", np.dtype(np.int64)), ("num_tokens", np.dtype(np.int64)),
    ("context_lengths", np.dtype(np.int64)), ("buckets", np.dtype(np.int64)),
    ("blocks", np.dtype(np.int64)), ("num_blocks", np.dtype(np.int64)),
    ("seed", np.dtype(np.int64)), ("temperature", np.dtype(np.float32)),
    ("top_p", np.dtype(np.float32)), ("is_decode", np.dtype(np.bool_)),
    ("wants_token", np.dtype(np.bool_)),
)  # fmt: skip
"""Widest first, so that every array is aligned."""


def _read_batch(data: bytearray, lengths: list[int]) -> StepBatch:
    arrays: dict[str, Any] = {}
    offset = 0
    for (name, dtype), length in zip(_BATCH_LAYOUT, lengths, strict=True):
        arrays[name] = np.frombuffer(data, dtype, length, offset)
        offset += length * dtype.itemsize
    return StepBatch(**arrays)


@dataclass(frozen=True, slots=True)
class RunStep:
    """The step plan of one rank.

    Attributes:
        step: id, the same on every rank.
        edition: the prepared plan that this step runs under.
        phase: 0 when any token of the group is a prefill token, else 1.
        num_tokens: tokens of the step over the group.
        sampled: whether this step is a shadow-routing sample.
        records: whether this step is counted.
        hook_ticks: beats of each active hook that are due, by name.
        batch: this rank's sequences.
    """

    step: int
    edition: int
    phase: int
    num_tokens: int
    sampled: bool
    records: bool
    hook_ticks: dict[str, int]
    batch: StepBatch


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make a plan ready without running it: tensors on the device, under an edition number.

    Attributes:
        bias, lkg_bias: FP32 [L, E].
        reload_bias: `bias` becomes live, else the live bias stays as it is.
        physical_to_logical: logical expert of each slot, int64 [L, slots]; None is linear.
    """

    edition: int
    generation: int
    config: RuntimeConfig
    bias: Floats | None
    lkg_bias: Floats | None
    reload_bias: bool
    physical_to_logical: Ints | None = None


@dataclass(frozen=True, slots=True)
class Discard:
    """Forget a prepared plan: another rank could not prepare it."""

    edition: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Hand over the counts since the last drain; with `period` the bucket arrays too."""

    frame: int
    period: bool


@dataclass(frozen=True, slots=True)
class Probe:
    """Negative log-likelihood of a text under the live bias; every rank takes part.

    Attributes:
        token_ids: the text; rank 0 runs it.
    """

    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadBias:
    """The live bias of this rank."""


@dataclass(frozen=True, slots=True)
class CountSamples:
    """Counts of the sampled steps as routed, and under another bias (None: as routed again)."""

    bias: Floats | None


@dataclass(frozen=True, slots=True)
class ReadScores:
    """Pre-bias scores of the sampled tokens by MoE layer, FP32 [T_loc, E], for recalibration."""


@dataclass(frozen=True, slots=True)
class SetHook:
    """Start a step hook under a name, or stop it (None)."""

    name: str
    hook: StepHook | None


Question = Probe | ReadBias | CountSamples | ReadScores | SetHook


@dataclass(frozen=True, slots=True)
class Ask:
    """A question between two steps; every rank answers with the same `number`."""

    number: int
    question: Question


@dataclass(frozen=True, slots=True)
class Stop:
    """End the process."""


ToRank = RunStep | Prepare | Discard | Drain | Ask | Stop


@dataclass(frozen=True, slots=True)
class RankFacts:
    """What a rank knows once it has loaded."""

    name: str
    layers: int
    moe_layers: int
    moe: MoESpec
    vocabulary: int
    context_tokens: int
    expert_set_hash: str
    eos_token_ids: tuple[int, ...]
    checkpoint_bias: Floats | None
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The rank has loaded and joined its peers."""

    facts: RankFacts


@dataclass(frozen=True, slots=True)
class StepDone:
    """The drawn token of each sequence that wanted one, in batch order; seconds in the model.

    Rank 0 adds the phases of a sampled step where spans are wanted.
    """

    step: int
    generation: int
    token_ids: list[int]
    seconds: float
    phases: StepPhases | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The rank holds the plan, or says why it cannot."""

    edition: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """The counts of one interval; rank 0 adds the live bias."""

    frame: int
    counts: RankCounts | None
    bias: Floats | None
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A rank's answer to `Ask`, or why it has none."""

    number: int
    value: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """The rank's process is alive, whatever its step does."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The last word of a rank that cannot go on; `checkpoint`: because of what it should load."""

    detail: str
    checkpoint: bool = False


FromRank = Ready | StepDone | Prepared | Drained | Answer | Beat | Crashed
