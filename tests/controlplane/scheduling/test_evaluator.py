"""What an evaluation costs."""

from sqlalchemy import event

from tests.support.governed_plant import GovernedPlant

MOST_STATEMENTS = 26
"""Of a tick that finds nothing new to say: 15 tables are asked, some of them twice."""


def statements_of_a_tick(governed: GovernedPlant) -> list[str]:
    """What one evaluation asks the database, BEGIN and PRAGMA left out."""
    asked: list[str] = []

    def note(_connection, _cursor, statement: str, *_more) -> None:
        if not statement.startswith(("BEGIN", "PRAGMA")):
            asked.append(" ".join(statement.split()))

    engine = governed.database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        governed.governor.evaluate_due(governed.fence)
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return asked


def test_a_tick_that_says_nothing_new_asks_the_database_little(governed):
    governed.warm()
    governed.run(4)
    governed.clock.advance(4)
    governed.plant.emit(governed.clock.now(), 4)
    asked = statements_of_a_tick(governed)
    assert 0 < len(asked) <= MOST_STATEMENTS, "\n".join(asked)
    assert not any("decision.evidence" in statement for statement in asked)
    assert not any("load_reference.payload" in statement for statement in asked)
