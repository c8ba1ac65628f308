"""One GET of a Prometheus endpoint within bounds: of size, of time, of encoding."""

import asyncio

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


async def fetch(
    client: httpx.AsyncClient, url: str, token: str, *, max_bytes: int, seconds: float
) -> str:
    """The endpoint's text, in at most `seconds` in all.

    A time for each read alone would let an endpoint that sends a header now and then go on forever.

    Raises:
        EngineUnreachableError: no whole answer in time.
        ScrapeError: an answer of another kind.
    """
    headers = HEADERS | ({"Authorization": f"Bearer {token}"} if token else {})
    body = bytearray()
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream("GET", url, headers=headers, timeout=None) as answer,
        ):
            _check(answer, url)
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > max_bytes:
                    raise ScrapeError(
                        f"{url} sent over {max_bytes} bytes", field="metrics", bound=max_bytes
                    )
    except TimeoutError:
        raise EngineUnreachableError(f"{url} took over {seconds:g} s to answer") from None
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
