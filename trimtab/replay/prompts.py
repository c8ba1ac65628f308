"""Prompt text by domain, from the interpreter's own standard library: code, prose and tables.

A trace says how long a prompt is, not what it says; what it says decides which experts it takes.
"""

import encodings.cp1252
import html.entities
import inspect
import pydoc_data.topics
import random
import sysconfig
import unicodedata
from collections.abc import Mapping
from pathlib import Path

DOMAINS = ("code", "prose", "table")


class PromptSource:
    """Cuts prompts of an exact number of bytes out of the texts, reproducibly.

    Domains are stratified: after any number of prompts each domain has had its share to within one
    prompt, so that two stretches of the same traffic carry the same mix.

    Args:
        seed: of the offsets.
        mix: relative weight of each domain; every domain alike by default.
    """

    def __init__(self, seed: int = 0, mix: Mapping[str, float] | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a workload, not a secret
        self._texts = {"code": _code(), "prose": _prose(), "table": _tables()}
        weights = dict.fromkeys(DOMAINS, 1.0) if mix is None else dict(mix)
        total = sum(weights.values())
        self._share = {name: weights.get(name, 0.0) / total for name in DOMAINS}
        self._owed = dict.fromkeys(DOMAINS, 0.0)

    def prompt(self, tokens: int) -> str:
        """An ASCII text of `tokens` bytes, which the byte-level model counts as tokens."""
        text = self._texts[self._next_domain()]
        start = self._random.randrange(len(text))
        cut = text[start : start + tokens]
        while len(cut) < tokens:
            cut += text[: tokens - len(cut)]
        return cut

    def _next_domain(self) -> str:
        for name, share in self._share.items():
            self._owed[name] += share
        chosen = max(self._owed, key=self._owed.__getitem__)
        self._owed[chosen] -= 1.0
        return chosen


def _ascii(text: str) -> str:
    return text.encode("ascii", "ignore").decode()


def _code() -> str:
    library = Path(sysconfig.get_paths()["stdlib"])
    names = ("argparse", "dataclasses", "datetime", "difflib", "functools", "inspect", "tarfile")
    return _ascii("\n".join((library / f"{name}.py").read_text("utf-8") for name in names))


def _prose() -> str:
    topics: dict[str, str] = pydoc_data.topics.topics
    return _ascii("\n".join(topics[name] for name in sorted(topics)))


def _tables() -> str:
    characters = (chr(point) for point in range(0x20, 0x2000))
    names = [
        f"{ord(c):04X};{unicodedata.name(c)};{unicodedata.category(c)}"
        for c in characters
        if unicodedata.name(c, "")
    ]
    entities = [f"{name}\t{point}" for name, point in sorted(html.entities.name2codepoint.items())]
    return _ascii("\n".join([*names, *entities, inspect.getsource(encodings.cp1252)]))
