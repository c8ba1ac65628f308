"""A real engine with two ranks and a real control plane, as processes on loopback, and a load.

The settings are those of `trimtab demo`; what a test wants otherwise goes by the environment.
"""

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from contract.admin import BiasList, ConfigDocument, ConfigHistory, ConfigState
from contract.headers import FENCING_EPOCH, IDEMPOTENCY_KEY, IF_MATCH, OPERATOR_EPOCH
from controlplane.policy.builtin import FAST
from controlplane.policy.knob import Knob
from controlplane.policy.policy import Policy, VerifyPlan
from engine.faults.names import BIAS_RAMP
from tests.support.expositions import OBSERVED
from tests.support.polling import until
from trimtab.demo.processes import Child, Children
from trimtab.demo.site import ENGINE_ID, Site
from trimtab.replay.prompts import PromptSource

ROOT = Path(__file__).parents[2]
TIMEOUT = 120.0
QUICK = FAST.model_copy(
    update={
        "name": "quick",
        "settle_seconds": 1.0,
        "approval_seconds": 600.0,
        "verify": VerifyPlan(seconds=5, min_requests=5, min_assignments=4096),
    }
)
"""`fast`, with shorter waits after a change and a longer one for an operator."""


@dataclass
class RunningSite:
    """Both programs, and clients with every right."""

    site: Site
    children: Children
    environment: Mapping[str, str]
    engine: Child
    control: Child
    engine_api: httpx.Client
    control_api: httpx.Client

    def wait_until_ready(self) -> None:
        """Both answer `/readyz` with 200; fails at once when one has ended."""

        def ready() -> bool:
            self.children.check()
            clients = (self.control_api, self.engine_api)
            return all(_status(client, "/readyz") == 200 for client in clients)

        until(ready, "both programs became ready")

    def kill_control(self) -> None:
        """kill -9 of the control plane."""
        self.control.kill()
        self.children.forget(self.control)

    def start_control(self) -> None:
        """Start the control plane again on the same database."""
        self.control = _start_control(self.site, self.children, self.environment)

    def config(self) -> ConfigState:
        """The engine's own word on its config."""
        return ConfigState.model_validate(self.engine_get("/config"))

    def biases(self) -> BiasList:
        """The engine's own word on its biases."""
        return BiasList.model_validate(self.engine_get("/router-bias"))

    def engine_get(self, path: str, **query: Any) -> Any:
        """GET of the engine's admin API."""
        return _body(self.engine_api.get(f"/admin/v1{path}", params=query))

    def change(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """A mutation of the engine's admin API, as an operator."""
        headers = {
            IF_MATCH: self.config().etag,
            FENCING_EPOCH: str(OPERATOR_EPOCH),
            IDEMPOTENCY_KEY: uuid.uuid4().hex,
        }
        return _body(
            self.engine_api.request(method, f"/admin/v1{path}", json=dict(body), headers=headers)
        )

    def set_knobs(self, **knobs: Any) -> Any:
        """An operator's change of some knobs."""
        config = self.config().document.config.model_dump(mode="json") | knobs
        return self.change("PUT", "/config", {"config": config, "cause": {"kind": "operator"}})

    def inject(self, fault: str, **params: float) -> None:
        """Start a fault."""
        self.change("POST", "/faults", {"name": fault, "params": params})

    def control_get(self, path: str, **query: Any) -> Any:
        """GET of the control plane's API."""
        return _body(self.control_api.get(f"/api/v1{path}", params=query))

    def control_send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Any other request to the control plane's API."""
        return _body(self.control_api.request(method, f"/api/v1{path}", json=body, headers=headers))

    def mark_good(self) -> None:
        """Make the live bias the last known good; asks again while the engine is too slow."""

        def marked() -> bool:
            answer = self.control_api.post(f"/api/v1/engines/{ENGINE_ID}/router-bias/mark-good")
            return answer.status_code != 502 and bool(_body(answer))

        until(marked, "the bias was marked good")

    def govern(self, policy: Policy = QUICK, **modes: str) -> None:
        """Store a policy, and give it to the engine with these modes; other knobs are off."""
        body = {"policy": policy.model_dump(mode="json")}
        self.control_send("PUT", f"/policies/{policy.name}", body)
        off = {knob.value: "off" for knob in Knob}
        wish = {"policy": policy.name, "modes": off | modes}
        self.control_send("PUT", f"/engines/{ENGINE_ID}/policy", wish)

    def roll_bias_back(self) -> str:
        """An operator's rollback to the last known good; gives the action's id."""

        def opened() -> str | None:
            body = {"bias_hash": self.biases().last_known_good, "reason": "a test"}
            answer = self.control_api.post(
                f"/api/v1/engines/{ENGINE_ID}/router-bias/rollback", json=body,
                headers={IF_MATCH: self.config().etag},
            )  # fmt: skip
            return None if answer.status_code == 502 else _body(answer)["action_id"]

        return until(opened, "the rollback was opened")

    def drift(self) -> None:
        """Drive the live bias away from the last known good within a moment."""
        self.inject(BIAS_RAMP, height=2.0, seconds=0.2)

        def is_away() -> bool:
            biases = self.biases()
            return biases.live_hash != biases.last_known_good

        until(is_away, "the live bias left the last known good")

    def action(self, action_id: str) -> dict[str, Any]:
        """One action."""
        return self.control_get(f"/actions/{action_id}")["action"]

    def generations_of(self, action_id: str) -> list[ConfigDocument]:
        """The generations that the engine has minted for an action."""
        history = ConfigHistory.model_validate(self.engine_get("/config/history", limit=1000))
        return [d for d in history.documents if d.cause.id.startswith(f"{action_id}:")]

    def actions(self, phase: str | None = None) -> list[dict[str, Any]]:
        """Actions, newest first."""
        query = {} if phase is None else {"phase": phase}
        return self.control_get("/actions", engine=ENGINE_ID, **query)

    def findings(self) -> dict[str, dict[str, Any]]:
        """What the newest evaluation found, by detector; empty before the first."""
        answer = self.control_api.get(f"/api/v1/engines/{ENGINE_ID}/evaluation")
        if answer.status_code == 404:
            return {}
        return {each["detector"]: each for each in _body(answer)["snapshot"]["findings"]}


@contextmanager
def running_site(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    vllm_url: str = "",
    **changed: Any,
) -> Iterator[RunningSite]:
    """Start both; stop both and everything that they started at the end.

    Args:
        folder: of settings, database, state and logs.
        environment: settings of either program that differ from the demo's.
        vllm_url: of a server to observe beside the engine, if any.
        changed: fields of `trimtab.demo.site.Site`.
    """
    site = Site(folder, **changed)
    site.write()
    if vllm_url:
        with site.control_file.open("a") as settings:
            settings.write(f'\n[[engines]]\nid = "{OBSERVED}"\nkind = "vllm"\nurl = "{vllm_url}"\n')
    told = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(environment or {})}
    with Children(folder / "logs") as children:
        control = _start_control(site, children, told)
        engine = children.start_trimtab(
            "engine", ["engine", "--config", str(site.engine_file)], told
        )
        with (
            _client(site.engine_url, site.tokens.engine_admin) as engine_api,
            _client(site.control_url, site.tokens.control_admin) as control_api,
        ):
            yield RunningSite(site, children, told, engine, control, engine_api, control_api)


@dataclass
class Load:
    """Requests one after the other from each of some threads; what was served and what failed."""

    site: Site
    workers: int = 3
    prompt_tokens: int = 96
    output_tokens: int = 24
    served: int = 0
    errors: list[str] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Send until the block ends."""
        stop = threading.Event()
        threads = [
            threading.Thread(target=self._send, args=(number, stop), daemon=True)
            for number in range(self.workers)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            stop.set()
            for thread in threads:
                thread.join(TIMEOUT)

    def _send(self, number: int, stop: threading.Event) -> None:
        prompts = PromptSource(number)
        body = {"max_tokens": self.output_tokens, "ignore_eos": True, "temperature": 1.0}
        with _client(self.site.engine_url, self.site.tokens.inference) as client:
            body["model"] = _body(client.get("/v1/models"))["data"][0]["id"]
            while not stop.is_set():
                prompt = prompts.prompt(self.prompt_tokens)
                try:
                    _body(client.post("/v1/completions", json=body | {"prompt": prompt}))
                    self.served += 1
                except (httpx.HTTPError, AssertionError) as error:
                    self.errors.append(f"{type(error).__name__}: {error}")
                    stop.wait(0.2)


def _start_control(site: Site, children: Children, environment: Mapping[str, str]) -> Child:
    return children.start_trimtab(
        "control", ["serve", "--config", str(site.control_file)], environment
    )


def _client(url: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT, trust_env=False)


def _status(client: httpx.Client, path: str) -> int:
    try:
        return client.get(path).status_code
    except httpx.TransportError:
        return 0


def _body(answer: httpx.Response) -> Any:
    assert answer.is_success, f"{answer.request.url}: {answer.status_code} {answer.text[:500]}"
    return answer.json()
