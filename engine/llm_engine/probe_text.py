"""The fixed text whose likelihood says how well the model's experts still fit its tokens."""

from engine.config import EngineConfig
from engine.llm_engine.exchange import ModelFacts
from engine.model.tokenizer import Tokenizer

PROBE_FILE = "probe.txt"
_MOST_TOKENS = 768

_TEXT = '''\
import csv
from pathlib import Path


def read_rows(path, delimiter=","):
    """Return the rows of a file as dictionaries, keyed by its first line."""
    with Path(path).open(newline="") as source:
        reader = csv.DictReader(source, delimiter=delimiter)
        return [dict(row) for row in reader]


class Ledger:
    def __init__(self, entries=None):
        self.entries = list(entries or [])

    def add(self, name, amount):
        if amount < 0:
            raise ValueError("amount must not be negative")
        self.entries.append((name, amount))

    def total(self):
        return sum(amount for _, amount in self.entries)

The harbour was quiet in the morning, and the first boats had already gone out with the tide. On the
wall a woman was mending a net, and she did not look up when the bell of the church began to ring.
'''


def probe_tokens(config: EngineConfig, model: ModelFacts) -> tuple[int, ...]:
    """Tokens of the checkpoint's own `probe.txt`, or of a text that every model gets."""
    own = config.checkpoint / PROBE_FILE
    text = own.read_text(encoding="utf-8") if own.is_file() else _TEXT
    tokens = Tokenizer(config.checkpoint).encode(text)
    return tokens[: min(_MOST_TOKENS, model.context_tokens)]
