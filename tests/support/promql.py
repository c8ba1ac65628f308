"""Names of series in a PromQL expression, without a parser: strip what cannot be a series."""

import re

FUNCTIONS = frozenset({
    "abs", "absent", "and", "avg", "avg_over_time", "bool", "by", "changes", "count", "group_left",
    "group_right", "histogram_quantile", "ignoring", "increase", "label_join", "label_replace",
    "max", "min", "offset", "on", "or", "rate", "sum", "unless",
})  # fmt: skip


def series_names(expr: str) -> set[str]:
    """Every identifier that is neither a function, a keyword, a label, a duration nor a string."""
    text = re.sub(r'"[^"]*"', "", expr)
    text = re.sub(r"\{[^{}]*\}", "", text)
    text = re.sub(r"\[[^\]]*\]", "", text)
    text = re.sub(r"\boffset\s+[$\w]+", "", text)
    text = re.sub(r"\b(?:by|on|ignoring|without)\s*\([^()]*\)", "", text)
    text = re.sub(r"\b(group_left|group_right)\s*\([^()]*\)", "", text)
    found = re.findall(r"(?<![\w:.$])[a-zA-Z_][\w:]*", text)
    return {name for name in found if name not in FUNCTIONS}
