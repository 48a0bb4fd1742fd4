"""Every method of `nispa.methods.METHODS` goes through every check of `nispa.checks.LEARNER_CHECKS`."""

import inspect

import pytest

from nispa.checks import LEARNER_CHECKS
from nispa.methods import METHODS, method_class


@pytest.mark.parametrize("check", LEARNER_CHECKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_the_contract(method: str, check: str) -> None:
    LEARNER_CHECKS[check](method)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_listed_under_its_name_and_takes_keywords(method: str) -> None:
    cls = method_class(method)
    assert cls.name == method
    parameters = list(inspect.signature(cls).parameters.values())
    assert parameters[0].name == "network"
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in parameters[1:])


def test_all_checks_are_found() -> None:
    expected = "repeatable records resumable saved masks old_tasks outputs_can_be_added errors augments"
    assert {*expected.split(), "state_is_plain", "last"} == set(LEARNER_CHECKS)
