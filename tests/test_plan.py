"""The plan travels to workers as plain data, and holds no secret."""

import json

import pytest

from tests.test_options import given
from tokenswarm.calibration import ESTIMATE
from tokenswarm.plan import Plan, versions
from tokenswarm.usage_error import UsageError

PLAN = Plan(
    run_id="r",
    run_path="/results/r",
    started_at=1795986300.25,
    model="m",
    max_tokens_field="max_completion_tokens",
    include_usage=False,
    has_key=True,
    calibration=ESTIMATE,
)


def test_it_survives_the_way_to_a_worker() -> None:
    assert Plan.from_dict(json.loads(json.dumps(PLAN.as_dict()))) == PLAN


def test_a_worker_asks_as_the_preflight_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    settings = PLAN.settings(given("--stall-timeout=7"), "http://host:8000")
    assert (settings.model, settings.max_tokens_field, settings.include_usage) == ("m", "max_completion_tokens", False)
    assert settings.limits.stall_s == 7
    assert settings.targets[0].base_url == "http://host:8000/v1"
    assert settings.api_key == "sk-secret", "from the worker's own environment"
    assert "sk-secret" not in json.dumps(PLAN.as_dict())


def test_a_worker_without_the_masters_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="not for this worker"):
        PLAN.settings(given(), "http://host:8000")


def test_the_plan_of_another_version_is_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="another version of TokenSwarm"):
        Plan.from_dict({**PLAN.as_dict(), "new": 1})


def test_versions_name_what_measures() -> None:
    assert {"python", "os", "tokenswarm", "locust", "gevent"} <= set(versions())
