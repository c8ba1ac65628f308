"""Turns waiting alerts into evaluations: one per engine, however many alerts ask for it."""

from collections.abc import Mapping

from controlplane.actuator.fence import Fence
from controlplane.actuator.groups import Groups
from controlplane.scheduling.alert_engine import Meant, meant
from controlplane.scheduling.evaluator import Evaluator
from controlplane.scheduling.inbox import EVALUATED, IGNORED, Inbox
from controlplane.scheduling.models import AlertInbox

_Asking = tuple[AlertInbox, str]
"""An alert, and how its engine was found where not by its id."""


class AlertWork:
    """The job that empties the inbox."""

    def __init__(
        self, inbox: Inbox, evaluator: Evaluator, groups: Groups, allowed: Mapping[str, str]
    ) -> None:
        self._inbox = inbox
        self._evaluator = evaluator
        self._groups = groups
        self._allowed = dict(allowed)

    def run(self, fence: Fence) -> None:
        """Evaluate what the waiting alerts are about."""
        waiting = self._inbox.pending()
        if not waiting:
            return
        urls = self._groups.urls()
        by_engine: dict[str, list[_Asking]] = {}
        for alert in waiting:
            engine = meant(alert.engine_id or "", urls)
            why = self._why_ignored(alert, engine)
            if why is not None or engine.engine_id is None:
                self._inbox.settle(alert.key, state=IGNORED, outcome=why or "", check=fence.check)
            else:
                by_engine.setdefault(engine.engine_id, []).append((alert, engine.told))
        for engine_id, alerts in by_engine.items():
            self._evaluate(engine_id, alerts, fence)

    def _evaluate(self, engine_id: str, alerts: list[_Asking], fence: Fence) -> None:
        outcome = self._evaluator.evaluate(engine_id, fence, origin=f"alert:{alerts[0][0].key}")
        if outcome is None:
            return  # another action took the group meanwhile: the alert waits for the next run
        for alert, found in alerts:
            told = f"{outcome.decision.reason}: {outcome.decision.explanation}"
            if found:
                told += f" ({found})"
            if alert.truncated:
                told += f" ({alert.truncated} alerts of this group were not delivered)"
            self._inbox.settle(
                alert.key, state=EVALUATED, outcome=told, decision_id=outcome.decision_id,
                check=fence.check,
            )  # fmt: skip

    def _why_ignored(self, alert: AlertInbox, engine: Meant) -> str | None:
        why = self._inbox.why_ignored(alert, self._allowed, engine)
        wanted = self._allowed.get(alert.alertname, "")
        if why is not None or not wanted or engine.engine_id is None:
            return why
        governing = self._evaluator.governed(engine.engine_id).policy.name
        if governing == wanted:
            return None
        return f"{alert.alertname} asks for policy {wanted}; {governing} governs the engine"
