"""Which configured engine an alert's `engine` label means: by id, else by its address. Pure.

Prometheus calls an engine that has no `engine` label by its instance, host:port, and vLLM's
data-parallel engines by host:port/index. The control plane knows them by the URL it reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Meant:
    """The engine, or why none is meant; `told` says how it was found, empty for its own id."""

    engine_id: str | None
    told: str = ""


def meant(label: str, urls: Mapping[str, str]) -> Meant:
    """The engine that a label means, of the configured ones: `urls` has the URL of each id."""
    if label in urls:
        return Meant(label)
    address = label.partition("/")[0].lower()
    found = sorted(
        engine_id for engine_id, url in urls.items() if address and address in _addresses(url)
    )
    if len(found) == 1:
        return Meant(found[0], f"{label!r} is the address of engine {found[0]!r}")
    if found:
        return Meant(
            None,
            f"engine {label!r} is not configured, and its address is that of {', '.join(found)}: "
            "set the label engine in Prometheus' scrape config",
        )
    return Meant(None, f"engine {label!r} is not configured")


def _addresses(url: str) -> set[str]:
    """host:port of a URL; the host alone too where the port is the scheme's own."""
    parsed = httpx.URL(url)
    host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    usual = _PORTS.get(parsed.scheme)
    port = parsed.port or usual
    return {f"{host}:{port}"} | ({host} if port == usual else set())
