"""One GET of a Prometheus endpoint within bounds: of size, of time, of encoding."""

from collections.abc import Callable

import httpx

from controlplane.errors import EngineUnreachableError, TrimtabError

METRICS_PATH = "/metrics"
HEADERS = {
    "Accept": "text/plain;version=0.0.4;q=1,*/*;q=0.1",
    # Not compressed: what is bounded is then what arrives.
    "Accept-Encoding": "identity",
}


class ScrapeError(TrimtabError):
    """An answer that is not an exposition: another status, too large, compressed."""

    kind = "scrape-failed"


def metrics_url(url: str) -> str:
    """The endpoint of an engine's base URL; a URL that names it already is taken as it is."""
    trimmed = url.rstrip("/")
    return trimmed if trimmed.endswith(METRICS_PATH) else trimmed + METRICS_PATH


def fetch(
    client: httpx.Client,
    url: str,
    token: str,
    *,
    max_bytes: int,
    seconds: float,
    monotonic: Callable[[], float],
) -> str:
    """The endpoint's text, in at most `seconds` in all.

    Raises:
        EngineUnreachableError: no whole answer in time.
        ScrapeError: an answer of another kind.
    """
    began = monotonic()
    headers = HEADERS | ({"Authorization": f"Bearer {token}"} if token else {})
    body = bytearray()
    try:
        with client.stream("GET", url, headers=headers, timeout=seconds) as answer:
            _check(answer, url)
            for piece in answer.iter_raw():
                body += piece
                if len(body) > max_bytes:
                    raise ScrapeError(
                        f"{url} sent over {max_bytes} bytes", field="metrics", bound=max_bytes
                    )
                if monotonic() - began > seconds:
                    raise EngineUnreachableError(f"{url} took over {seconds:g} s to answer")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        told = f"{url} did not answer: {type(error).__name__} {error}".rstrip()
        raise EngineUnreachableError(told) from error
    return body.decode("utf-8", "replace")


def _check(answer: httpx.Response, url: str) -> None:
    if answer.status_code != httpx.codes.OK:
        raise ScrapeError(
            f"{url} answered {answer.status_code}, wanted is 200",
            field="status", value=answer.status_code, bound=200,
        )  # fmt: skip
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise ScrapeError(
            f"{url} answered with content encoding {encoding!r}, asked was for identity",
            field="Content-Encoding", value=encoding,
        )  # fmt: skip
