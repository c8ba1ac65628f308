"""The words of this UI, each in a sentence or two: the Glossary page, `docs/glossary.md`, titles.

Written here once; `make generate` writes the document.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A word and what it means, with its unit where it has one."""

    name: str
    told: str

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return self.name.split(" (")[0].lower().replace(" ", "-")


SECTIONS: dict[str, tuple[Term, ...]] = {
    "The model and its engine": (
        Term("expert", "One of the E feed-forward networks of an MoE layer. The router sends each "
             "token to its top-k experts."),
        Term("assignment", "One token sent to one expert: a step of T tokens has T × k of them in "
             "each layer."),
        Term("router bias", "A number for each expert that is added to its score for the choice "
             "only. It balances load; a wrong one drives it apart. Every version has a hash."),
        Term("last known good (LKG)", "The router bias that was marked good last: where a rollback "
             "goes, and what drift is measured against."),
        Term("rank", "One process of an engine's expert-parallel group, with its card and its "
             "share of the experts."),
        Term("all-to-all", "The exchange in which ranks send tokens to the experts (dispatch) and "
             "get the results back (combine). All wait for the slowest."),
        Term("straggler", "A rank that holds the others up: it waits least while they wait."),
        Term("generation", "The number of a whole runtime config. Every change makes a new one, "
             "and all ranks switch to it at one step."),
    ),
    "Load and overflow": (
        Term("capacity factor (C)", "How many slots an expert has, as a multiple of an even "
             "share: slots = max(cap_min, C × T × k ÷ E), rounded up."),
        Term("overflow", "Share of assignments that find their expert full, counted in each step "
             "before anything is rerouted. They are then rerouted, spilled to a copy, or dropped."),
        Term("rung", "A step of the ladder of capacity factors: 1, 1.1, 1.25, 1.5, 1.75, 2. "
             "Engines count what would overflow at each of them."),
        Term("tau", "τ, the lasting skew of expert load: standard deviation ÷ mean of the experts' "
             "true rates, with chance taken out. 0 is even; drift fires when the live bias adds "
             "surely more than 0.3."),
        Term("load CV", "Standard deviation ÷ mean of the experts' counts in a layer. Debiased "
             "means that the part which chance alone makes is taken out."),
        Term("card CV", "The same over ranks instead of experts: how unevenly the cards are "
             "loaded."),
        Term("top share", "Share of a layer's assignments on its busiest 16 % of experts (rounded "
             "up), 0 to 1: 0.16 when even; above 0.35 a few experts carry the layer."),
        Term("PSI", "Population stability index: how far load shares have moved from the "
             "reference. Above 0.1 is a real change."),
        Term("hot expert", "An expert with at least twice its reference share, beyond chance. A "
             "dead one has at most a tenth."),
        Term("gate mass kept", "Share of the router's weights that was carried out, 0 to 1. What "
             "was dropped is missing from it: a measure of answer quality."),
        Term("probe loss", "Negative log-likelihood in nats a token of a fixed text that the "
             "engine reads now and then. It rises when a change hurts the model."),
        Term("shadow routing", "Sampled steps are routed again under another bias or another C, "
             "without touching traffic: the what-if behind predictions."),
    ),
    "Objectives": (
        Term("TTFT", "Time to first token, in seconds, from arrival."),
        Term("TPOT", "Time per output token after the first, in seconds."),
        Term("SLO", "Service-level objective: the share of requests, or of ten-second slices, "
             "that must be good."),
        Term("budget", "Error budget: the bad share that the objective allows. 100 % is "
             "untouched, 0 % is spent; unknown while too few events were judged. Counted over the "
             "last three days, or as much of them as is stored."),
        Term("burn", "How fast the budget is spent: bad share ÷ allowed bad share. 1× spends it "
             "exactly."),
        Term("tier", "A pair of windows and a burn limit. The governor acts on its own tiers; "
             "others page or open a ticket."),
        Term("inconclusive", "Too few events to say. It is never read as good, nor as bad."),
    ),
    "Governing": (
        Term("finding", "What a detector says of an engine, with n and an interval: clear, "
             "firing, inconclusive or warming up."),
        Term("knob", "What may be changed while the engine serves: capacity factor, chunk size, "
             "concurrency, router bias and a few more."),
        Term("chunk size", "Tokens of one step at most, decode first, then pieces of prompts."),
        Term("concurrency", "Sequences that run at once in an EP group; further requests wait."),
        Term("mode", "What the governor may do with a knob: off; shadow (only write down); "
             "approve (a person agrees first); auto."),
        Term("decision", "What the policy said at a tick, with its evidence and why the other "
             "changes lost. Doing nothing is a decision too."),
        Term("action", "One change on its way: applied, settled, verified, and kept or taken "
             "back."),
        Term("settle", "The wait after a change before its effect is judged, so that the old "
             "config's requests are gone."),
        Term("verify", "The judgement: the target must improve and nothing else get worse by more "
             "than 10 %. Pass keeps the change, fail takes it back."),
        Term("canary", "The first engine of a group that gets a change; the others follow once it "
             "is verified, and are compared with it until then."),
        Term("rollback", "Make an earlier bias or config live again, on every rank at one step."),
        Term("lease", "A change that the engine takes back by itself when nobody renews it."),
        Term("pin", "A knob that a person holds: the governor leaves it alone."),
        Term("freeze", "A halt: no change by the governor, and none at the engine if so wished."),
    ),
    "Telemetry": (
        Term("frame", "What an engine tells of one second: counts of every layer and expert, "
             "latencies, its config."),
        Term("n", "How many events stand behind a number: requests, tokens, slices or windows."),
    ),
}  # fmt: skip
TERMS: dict[str, Term] = {
    term.name.split(" (")[0]: term for terms in SECTIONS.values() for term in terms
}


def markdown() -> str:
    """`docs/glossary.md`."""
    lines = [
        "# Glossary", "",
        "The words of the web UI, the metrics and these documents. The UI shows the same list "
        "under *Glossary*.", "",
    ]  # fmt: skip
    for section, terms in SECTIONS.items():
        lines += [f"## {section}", ""]
        lines += [f"- **{term.name}**: {term.told}" for term in terms]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
