"""The demo's voice: plain sentences with the seconds since the traffic started."""

from collections.abc import Callable

from rich.console import Console


class Narrator:
    """Prints one sentence a line; `seconds` gives the time to print beside it."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.seconds: Callable[[], float] | None = None

    def say(self, sentence: str) -> None:
        """One sentence."""
        stamp = "        " if self.seconds is None else f"{self.seconds():6.1f} s"
        self.console.print(f"[dim]{stamp}[/dim]  {sentence}", highlight=False, soft_wrap=True)

    def title(self, text: str) -> None:
        """The name of the part that begins."""
        self.console.rule(text)
