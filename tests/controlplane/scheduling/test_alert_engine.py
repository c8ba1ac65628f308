"""Which engine an alert means."""

import pytest

from controlplane.scheduling.alert_engine import Meant, meant

URLS = {
    "vllm-live": "http://127.0.0.1:8951/metrics",
    "sglang-0": "https://sglang.example",
    "six": "http://[::1]:8000",
    "left": "http://proxy:9000/left",
    "right": "http://proxy:9000/right",
    "proxy:9000": "http://elsewhere:1",
}


@pytest.mark.parametrize(
    ("label", "engine_id"),
    [
        ("127.0.0.1:8951", "vllm-live"),
        ("127.0.0.1:8951/", "vllm-live"),
        ("127.0.0.1:8951/1", "vllm-live"),
        ("sglang.example:443", "sglang-0"),
        ("sglang.example", "sglang-0"),
        ("SGLang.example:443", "sglang-0"),
        ("[::1]:8000", "six"),
    ],
)
def test_an_engine_is_found_by_its_address_and_that_is_said(label, engine_id):
    found = meant(label, URLS)
    assert found.engine_id == engine_id
    assert found.told == f"{label!r} is the address of engine {engine_id!r}"


def test_an_id_goes_before_an_address_and_needs_no_word():
    assert meant("proxy:9000", URLS) == Meant("proxy:9000")


def test_an_address_of_two_engines_means_neither_and_names_both():
    found = meant("proxy:9000/0", {k: v for k, v in URLS.items() if k != "proxy:9000"})
    assert found.engine_id is None
    assert "that of left, right" in found.told
    assert "scrape config" in found.told


@pytest.mark.parametrize("label", ["", "/", "127.0.0.1", "127.0.0.1:895", "sglang.example:80"])
def test_what_is_no_engines_address_is_not_configured(label):
    assert meant(label, URLS) == Meant(None, f"engine {label!r} is not configured")
