"""Scraping real HTTP endpoints on loopback into the history; an observe-only engine throughout."""

import dataclasses
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from controlplane.errors import StorageError
from controlplane.history.observed import observed_of
from controlplane.history.tiers import Span
from controlplane.history.upkeep import Upkeep
from controlplane.settings import ScrapeSettings
from tests.support.expositions import OBSERVED as ENGINE
from tests.support.expositions import vllm
from tests.support.frames import START


def _outcomes(plane) -> dict[str, float]:
    counter = plane.instruments.counter("trimtab_scrapes_total")
    return {
        sample.labels["outcome"]: sample.value
        for metric in counter.collect() for sample in metric.samples
    }  # fmt: skip


def test_an_interval_becomes_a_frame_with_latencies_and_gauges(plane, scrape):
    assert scrape(vllm((1, 0, 0, 0, 0), generated=50)) == 1
    assert scrape(vllm((1, 4, 0, 0, 5), (0, 0, 3, 1, 0), generated=250)) == 1
    (frame,) = plane.history.frames(ENGINE, 0, START + 100)
    header = frame.header
    assert (header.started_unix_seconds, header.interval_seconds) == (START + 5, 5.0)
    assert (header.model, header.layers, header.simulated) == ("tiny", 0, False)
    assert (header.tokens, header.gauges.running, header.gauges.queued) == ((0, 200), 3, 2)
    assert frame.arrays["ttft"].sum() == 9
    assert frame.arrays["ttft"][0, -1] == 5  # above the last foreign bound: not known better
    assert header.requests.tpot_measured == 4
    observed = observed_of(header)
    assert observed is not None
    assert observed.kind == "vllm"
    assert 0.05 in observed.exact_bounds["tpot"]
    assert 0.2 not in observed.exact_bounds["ttft"]
    assert set(observed.missing) == {
        "inter_token", "queue_time", "request_time", "prefill_tokens", "finished", "rejected",
        "failed",
    }  # fmt: skip


def test_the_first_scrape_is_a_baseline_and_a_long_silence_makes_another(plane, scrape):
    scrape(vllm((7, 0, 0, 0, 0)))
    scrape(vllm((8, 0, 0, 0, 0)))
    scrape(vllm((90, 0, 0, 0, 0)), after=3600)
    scrape(vllm((92, 0, 0, 0, 0)))
    frames = plane.history.frames(ENGINE, 0, START + 9999)
    assert [int(frame.arrays["ttft"].sum()) for frame in frames] == [1, 2]
    assert len({frame.header.boot_id for frame in frames}) == 2
    assert _outcomes(plane) == {"baseline": 2, "stored": 2}


def test_a_scrape_that_fails_stores_nothing_and_the_next_covers_it(plane, scrape, endpoint):
    scrape(vllm((1, 0, 0, 0, 0)))
    endpoint.status = 503  # as vLLM answers while its topology changes
    assert scrape() == 0
    endpoint.status = 200
    assert scrape(vllm((4, 0, 0, 0, 0))) == 1
    (frame,) = plane.history.frames(ENGINE, 0, START + 100)
    assert (frame.header.interval_seconds, int(frame.arrays["ttft"].sum())) == (10.0, 3)
    assert _outcomes(plane) == {"baseline": 1, "scrape-failed": 1, "stored": 1}


@pytest.mark.parametrize(
    ("text", "headers", "kind"),
    [
        ("x" * 200_000, {}, "scrape-failed"),
        ("no exposition {", {}, "malformed-exposition"),
        ("", {"content-encoding": "gzip"}, "scrape-failed"),
    ],
)
def test_an_answer_of_another_kind_is_one_outcome(plane, scrape, endpoint, text, headers, kind):
    endpoint.headers = headers
    assert scrape(text) == 0
    assert _outcomes(plane) == {kind: 1}


def test_an_endpoint_that_is_away_is_one_outcome(plane, scrape):
    away = dataclasses.replace(plane.scraper.targets[0], url="http://127.0.0.1:1")
    plane.scraper.targets = (away,)
    assert scrape() == 0
    assert _outcomes(plane) == {"engine-unreachable": 1}


@contextmanager
def trickling() -> Iterator[str]:
    """The URL of a server that sends a header now and then and never ends."""
    ended = threading.Event()

    def trickle(listener: socket.socket) -> None:
        with listener.accept()[0] as connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not ended.wait(0.02):
                connection.sendall(b"X-More: yes\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        thread.join()


def test_an_endpoint_that_never_ends_its_answer_holds_up_no_other(plane, scrape):
    target = plane.scraper.targets[0]
    plane.scraper._settings = ScrapeSettings(timeout_seconds=0.2)
    with trickling() as url:
        plane.scraper.targets = (dataclasses.replace(target, engine_id="slow", url=url), target)
        assert scrape(vllm((1, 0, 0, 0, 0))) == 1
    assert _outcomes(plane) == {"engine-unreachable": 1, "baseline": 1}
    assert "took over 0.2 s" in plane.scraper.failure("slow")


def test_what_could_not_be_stored_is_in_the_next_frame(plane, scrape, monkeypatch):
    scrape(vllm((1, 0, 0, 0, 0)))

    def full(_frames):
        raise StorageError("the disk is full")

    monkeypatch.setattr(plane.scraper, "_store", full)
    assert scrape(vllm((2, 0, 0, 0, 0))) == 0
    monkeypatch.undo()
    scrape(vllm((3, 0, 0, 0, 0)))
    (frame,) = plane.history.frames(ENGINE, 0, START + 100)
    assert int(frame.arrays["ttft"].sum()) == 2


def test_buckets_that_disagree_with_their_count_are_read_in_part_and_said_once(
    plane, scrape, caplog
):
    scrape(vllm((10, 10, 0, 0, 0)))
    for tick in (1, 2):
        scrape(vllm((10 - tick, 10 + 3 * tick, 0, 0, 0)))
    frames = plane.history.frames(ENGINE, 0, START + 100)
    assert [int(frame.arrays["ttft"].sum()) for frame in frames] == [2, 2]
    assert _outcomes(plane) == {"baseline": 1, "partial": 2}
    said = [r.getMessage() for r in caplog.records if "disagree" in r.getMessage()]
    assert said == [f"engine {ENGINE}: read in part: ttft has buckets that disagree with its count"]


def test_frames_of_a_scrape_are_sealed_and_summed_like_any_other(plane, scrape, clock):
    for count in range(13):
        scrape(vllm((count, 0, 0, 0, 0)))
    clock.advance(120)
    assert Upkeep(plane.history).seal().frames == 12
    (found,) = plane.history.sums([ENGINE], Span(START, START + 600))
    assert found.window is not None
    assert found.window.by_generation[0]["ttft"].sum() == 12
    assert observed_of(found.window.header) is not None
