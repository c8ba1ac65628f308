"""What a YAML parser found wrong, in one line."""

import yaml


def in_one_line(error: yaml.YAMLError) -> str:
    """The problem and where it is, lines and columns counted from 1."""
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
    return f"{problem}{where}"
