"""Reads observe-only engines by their metrics, and stores what happened between two scrapes.

Each engine has a boot of its own here, begun anew when the last scrape is too long ago: a frame of
many minutes would say nothing of when. The first scrape of a boot only sets the baseline.
"""

import asyncio
import logging
import secrets
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httpx

from contract.frame_codec import encode
from controlplane.clock import Clock
from controlplane.engine_kind import EngineKind
from controlplane.errors import TrimtabError
from controlplane.history.ring import ReceivedFrame
from controlplane.history.upkeep import Job
from controlplane.metrics import Instruments
from controlplane.scraping.difference import Delta, Known
from controlplane.scraping.exposition import Reading, read
from controlplane.scraping.fetch import fetch, metrics_url
from controlplane.scraping.frames import Interval, frame_of
from controlplane.scraping.names import NAMES
from controlplane.settings import EngineSettings, ScrapeSettings

LONGEST_SECONDS = 60.0
"""Between two scrapes of one boot; after a longer silence counting begins anew."""
AT_ONCE = 64

logger = logging.getLogger(__name__)

Store = Callable[[Sequence[ReceivedFrame]], object]
"""Makes frames durable, or raises."""


@dataclass(frozen=True, slots=True)
class Target:
    """An observe-only engine and its endpoint."""

    engine_id: str
    kind: EngineKind
    url: str
    group: str = ""
    token: str = field(default="", repr=False)


def observed_engines(engines: Sequence[EngineSettings]) -> list[Target]:
    """The observe-only engines of the settings."""
    return [
        Target(
            engine_id=engine.id, kind=engine.kind, url=engine.url, group=engine.group,
            token=engine.admin_token.get_secret_value(),
        )
        for engine in engines if engine.kind.is_observed
    ]  # fmt: skip


def scrape_jobs(scraper: "Scraper", settings: ScrapeSettings) -> list[Job]:
    """The job of the leader; none when nothing is to be scraped."""
    return [Job("scrape", scraper.scrape, settings.interval_seconds)] if scraper.targets else []


@dataclass(slots=True)
class _Boot:
    """What is known of a target since counting began."""

    boot_id: str
    known: Known
    at: float
    monotonic: float
    sequence: int = 0


class Scraper:
    """Scrapes every target when `scrape` is called; safe to run twice."""

    def __init__(
        self,
        targets: Sequence[Target],
        store: Store,
        clock: Clock,
        instruments: Instruments,
        settings: ScrapeSettings,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.targets = tuple(targets)
        self._store = store
        self._clock = clock
        self._counter = instruments.counter("trimtab_scrapes_total")
        self._settings = settings
        self._transport = transport
        self._tls = ssl.create_default_context()  # made once: loading the authorities takes long
        self._boots: dict[str, _Boot] = {}
        self._said: dict[str, str] = {}
        self._warned: dict[str, str] = {}
        self._lock = threading.Lock()

    def scrape(self) -> int:
        """Scrape all targets side by side; gives how many answered.

        Takes no longer than `timeout_seconds` and the storing, whatever the endpoints do.
        """
        if not self.targets:
            return 0
        with self._lock:
            return asyncio.run(self._all())

    def failure(self, engine_id: str) -> str:
        """Why the last reading of an engine failed; empty when it did not, or not here."""
        return self._said.get(engine_id, "")

    async def _all(self) -> int:
        at_once = asyncio.Semaphore(AT_ONCE)

        async def one(target: Target) -> bool:
            async with at_once:
                return await self._scraped(target, client)

        async with httpx.AsyncClient(
            transport=self._transport, trust_env=False, verify=self._tls
        ) as client:
            return sum(await asyncio.gather(*map(one, self.targets)))

    async def _scraped(self, target: Target, client: httpx.AsyncClient) -> bool:
        try:
            outcome, told = await self._one(target, client), ""
        except TrimtabError as error:
            outcome, told = error.kind, error.detail
        self._counter.labels(target.engine_id, outcome).inc()
        if told != self._said.get(target.engine_id, ""):
            self._said[target.engine_id] = told
            logger.warning("engine %s: %s", target.engine_id, told or "answers again")
        return not told

    async def _one(self, target: Target, client: httpx.AsyncClient) -> str:
        """One scrape; gives one word on how it went."""
        at, monotonic = self._clock.now(), self._clock.monotonic()
        text = await fetch(
            client, metrics_url(target.url), target.token,
            max_bytes=self._settings.max_body_bytes, seconds=self._settings.timeout_seconds,
        )  # fmt: skip
        return await asyncio.to_thread(self._take, target, text, at, monotonic)

    def _take(self, target: Target, text: str, at: float, monotonic: float) -> str:
        """Store what a reading at `at` says; waits for the disk."""
        reading = read(text, NAMES[target.kind])
        boot = self._boots.get(target.engine_id)
        if boot is None or not 0 < monotonic - boot.monotonic <= LONGEST_SECONDS:
            known = Known() if boot is None else boot.known
            known.remember(reading)
            self._boots[target.engine_id] = _Boot(
                f"scrape-{secrets.token_hex(8)}", known, at, monotonic
            )
            return "baseline"
        delta = boot.known.since(reading)
        self._store([_received(target, boot, delta, reading, monotonic)])
        boot.known.remember(reading)
        boot.sequence += 1
        boot.at, boot.monotonic = at, monotonic
        problems = [*reading.problems, *delta.problems]
        self._warn(target.engine_id, "; ".join(dict.fromkeys(problems)))
        return "partial" if problems else "stored"

    def _warn(self, engine_id: str, problems: str) -> None:
        """Say once what is wrong with an engine's metrics, until something else is."""
        if problems and problems != self._warned.get(engine_id):
            self._warned[engine_id] = problems
            logger.warning("engine %s: read in part: %s", engine_id, problems)


def _received(
    target: Target, boot: _Boot, delta: Delta, reading: Reading, monotonic: float
) -> ReceivedFrame:
    interval = Interval(
        engine_id=target.engine_id, kind=target.kind, group=target.group, boot_id=boot.boot_id,
        sequence=boot.sequence, started=boot.at, seconds=monotonic - boot.monotonic,
    )  # fmt: skip
    frame = frame_of(interval, delta, reading)
    return ReceivedFrame(frame.header, encode(frame))
