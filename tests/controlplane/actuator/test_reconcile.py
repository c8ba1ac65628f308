"""Invariants of the pure step, under any sequence of worlds."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.admin import Cause, CauseKind, ConfigDocument, ConfigState, MutationResult
from contract.headers import config_etag
from contract.problem import Problem
from contract.runtime_config import RuntimeConfig
from controlplane.actuator import outcome
from controlplane.actuator.action import FINAL, Action, Intent, Phase
from controlplane.actuator.reconcile import reconcile
from controlplane.actuator.world import Observation, Telemetry, World
from controlplane.policy.verdict import Verdict, VerifyResult
from tests.support.governed import make_action

EVENTS = st.sampled_from([
    "quiet", "quiet", "quiet", "lose answer", "lose request", "refuse", "stale etag", "down",
    "foreign", "lease", "freeze", "thaw", "pass", "fail", "unsure", "abort",
])  # fmt: skip


@dataclass
class Model:
    """An engine, a verdict and a freeze that events move; keeps what reached the engine."""

    documents: list[ConfigDocument] = field(default_factory=list)
    applied: list[tuple[str, str]] = field(default_factory=list)
    answers: dict[str, MutationResult] = field(default_factory=dict)
    event: str = "quiet"
    frozen: bool = False
    verdict: Verdict = Verdict.INCONCLUSIVE
    now: float = 0.0

    def __post_init__(self):
        self.commit(RuntimeConfig(), Cause(kind=CauseKind.BOOT))

    def commit(self, config, cause):
        generation = len(self.documents)
        self.documents.append(
            ConfigDocument(
                generation=generation, config_hash=config.content_hash(), config=config,
                parent=None, cause=cause, committed_unix_seconds=self.now, effective_at_step=0,
            )
        )  # fmt: skip

    @property
    def state(self) -> ConfigState:
        document = self.documents[-1]
        etag = config_etag(document.generation, document.config_hash)
        return ConfigState(document=document, etag=etag, epoch_seen=1, frozen=False)

    def happen(self, event):
        self.event = event
        config = self.documents[-1].config
        match event:
            case "foreign":
                changed = config.model_copy(update={"capacity_factor": "2"})
                self.commit(changed, Cause(kind=CauseKind.OPERATOR, actor="kim"))
            case "lease":
                changed = config.model_copy(update={"capacity_factor": "1.25"})
                self.commit(changed, Cause(kind=CauseKind.LEASE))
            case "freeze" | "thaw":
                self.frozen = event == "freeze"
            case "pass" | "fail":
                self.verdict = Verdict(event)
            case "unsure":
                self.verdict = Verdict.INCONCLUSIVE
            case _:
                pass

    def world(self) -> World:
        seen = {}
        if self.event != "down":
            seen["engine-0"] = Observation(self.state, tuple(self.documents))
        generation = self.documents[-1].generation
        return World(
            now=self.now, frozen=self.frozen, observations=seen,
            telemetry={"engine-0": Telemetry(generation=generation, fresh=True)},
            verification=VerifyResult(verdict=self.verdict, message="", rows=()),
        )  # fmt: skip

    def send(self, action: Action, intent: Intent) -> Action:
        """The engine's side of a request, with the trouble of this event."""
        if self.event in {"lose request", "down"}:
            return action
        if self.event == "refuse":
            return outcome.refused(action, Problem(type="r", title="", status=409, detail="no"))
        result = self.apply(intent)
        if result is None:
            return outcome.refused(action, Problem(type="p", title="", status=412, detail="old"))
        if self.event == "lose answer":
            return action
        return outcome.answered(action, intent, result, self.now)

    def apply(self, intent: Intent) -> MutationResult | None:
        mutation = intent.mutation
        if mutation.key in self.answers:
            return self.answers[mutation.key]
        if mutation.if_match != self.state.etag:
            return None
        assert mutation.body is not None
        config = RuntimeConfig.model_validate(mutation.body["config"])
        self.commit(config, Cause.model_validate(mutation.body["cause"]))
        self.applied.append((mutation.key, str(config.capacity_factor)))
        state = self.state
        self.answers[mutation.key] = MutationResult(
            observed_generation=state.document.generation,
            config_hash=state.document.config_hash, etag=state.etag, effective_at_step=1,
        )  # fmt: skip
        return self.answers[mutation.key]


def step(action: Action, model: Model) -> Action:
    following = reconcile(action, model.world())
    assert reconcile(action, model.world()) == following, "reconcile must be deterministic"
    if following.send is None:
        return following.action
    assert not model.frozen, "nothing is sent while frozen"
    assert following.action.intent == following.send, "an intent is stored before it is sent"
    return model.send(following.action, following.send)


@settings(max_examples=300, deadline=None)
@given(events=st.lists(EVENTS, max_size=40))
def test_any_history_ends_in_one_application_at_most_and_never_in_limbo(events):
    model = Model()
    action = make_action(0.0)
    for event in events:
        model.happen(event)
        if event == "abort" and not action.is_final:
            action = action.model_copy(update={"abort_by": "kim"})
        before = action
        action = step(action, model)
        if before.phase in FINAL:
            assert action == before, "a final action never moves"
        model.now += 10
    model.happen("thaw")
    model.event = "quiet"
    for _ in range(80):
        action = step(action, model)
        model.now += 20
    assert action.is_final
    _hold_invariants(action, model)


def _hold_invariants(action: Action, model: Model) -> None:
    ups = [key for key, value in model.applied if value == "1.5"]
    downs = [key for key, value in model.applied if value == "1.25"]
    assert len(ups) <= 1, "applied twice"
    assert len(downs) <= len(ups), "reverted without having applied"
    foreign = any(document.cause.kind is CauseKind.OPERATOR for document in model.documents)
    present = model.documents[-1].config.capacity_factor
    match action.phase:
        case Phase.SUCCEEDED:
            assert ups
        case Phase.REVERTED:
            assert present != "1.5"
        case Phase.FAILED:
            assert not ups or foreign or present != "1.5"
        case Phase.SUPERSEDED:
            assert foreign or not ups
        case _:
            pass
    if not foreign and present == "1.5":
        assert action.phase in {Phase.SUCCEEDED, Phase.STOPPED, Phase.ESCALATED}
