"""The probe text: lines of one held-out document of each domain."""

from engine.model.training.corpus import Domain

PROBE_BYTES_EACH = 320
_AT_LEAST_BYTES = 2048


def probe_text(domains: tuple[Domain, ...]) -> str:
    """Whole lines from the middle of the middle one of each domain's ample held-out documents."""
    return "\n".join(_middle_lines(domain) for domain in domains)


def _middle_lines(domain: Domain) -> str:
    ample = [doc for doc in domain.held_out if len(doc.text) >= _AT_LEAST_BYTES]
    ample = ample or list(domain.held_out)
    text = ample[len(ample) // 2].text.decode(errors="ignore")
    # The first line of the second half is cut, so it is left out.
    lines = text[len(text) // 2 :].splitlines()[1:]
    taken = ""
    for line in lines:
        if len(taken) + len(line) > PROBE_BYTES_EACH:
            break
        taken += line + "\n"
    return taken
