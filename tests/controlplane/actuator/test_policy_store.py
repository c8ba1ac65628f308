import pytest

from controlplane.actuator import policy_store
from controlplane.errors import InvalidInputError
from controlplane.policy.builtin import BUILTIN
from controlplane.settings import GovernorSettings


def test_settings_may_name_what_ships_and_what_is_stored(sqlite_database):
    named = GovernorSettings(policy="own", alerts={"A": "", "B": "fast"}).named_policies()
    own = BUILTIN["fast"].model_copy(update={"name": "own"})
    with sqlite_database.write() as session:
        with pytest.raises(InvalidInputError, match=r"'own' does not exist; known: .*fast"):
            policy_store.check_named(session, named)
        policy_store.save(session, own, author="kim", note="", at=0.0)
        policy_store.check_named(session, named)


def test_a_setting_that_names_an_unknown_policy_is_refused_by_its_name(sqlite_database):
    named = GovernorSettings(alerts={"MoeBiasDrift": "nosuch"}).named_policies()
    with sqlite_database.read() as session, pytest.raises(InvalidInputError) as refused:
        policy_store.check_named(session, named)
    assert refused.value.field == "governor.alerts.MoeBiasDrift"
    assert refused.value.bound == sorted(BUILTIN)
