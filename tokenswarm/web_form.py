"""The form of Locust's page, checked before anything starts: what is wrong is said in the page, in one sentence.

The preflight is part of it: a target that does not answer, a model that is not there, are found out here and not by users.
"""

import argparse
import copy
import functools
import json
from collections.abc import Callable
from typing import Any

from flask import jsonify, request

from tokenswarm.client_options import settings_from
from tokenswarm.early_imports import refuse_early_ssl
from tokenswarm.options import option_names, resolve
from tokenswarm.plan import prepare
from tokenswarm.runfolder import RunFolder, RunFolderError
from tokenswarm.usage_error import UsageError

BY_HAND = "Default"  # Locust's word for no shape
BUSY = ("spawning", "running", "stopping", "cleanup")  # Locust's states of a load that is there


def check_form(environment: Any, view: Callable[..., Any]) -> Callable[..., Any]:
    """`view`, Locust's start of a load, behind a check of what was entered."""

    @functools.wraps(view)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            check(environment)
        except (UsageError, RunFolderError) as error:
            return jsonify({"success": False, "message": str(error), "host": environment.host})
        return view(*args, **kwargs)

    return checked


def check(environment: Any) -> None:
    """Raises UsageError or RunFolderError. Keeps what the preflight found, for the start that follows."""
    given = entered(environment.parsed_options, request.form.to_dict())
    host = request.form.get("host", environment.host or "")
    options = resolve(given)
    settings_from(argparse.Namespace(**vars(given) | {"api_key_command": ""}), host or "http://unset", options.model)
    if environment.runner.state in BUSY:  # more or fewer users, by hand
        if environment.shape_class is not None:
            raise UsageError(
                "A scenario is running and decides how many users there are. Stop it before you change them."
            )
        check_users(request.form)
        return
    picked = request.form.get("shape_class", BY_HAND)
    if picked == BY_HAND if environment.web_ui.userclass_picker_is_active else environment.shape_class is None:
        check_users(request.form)
    RunFolder.planned(options.results, options.run_name)
    refuse_early_ssl()
    environment.tokenswarm_prepared = prepare(given, host)


def check_users(form: Any) -> None:
    """By hand. Raises UsageError."""
    for name, label, least in (("user_count", "Number of users", 1.0), ("spawn_rate", "Ramp up", 0.0)):
        try:
            value = float(form.get(name, ""))
        except ValueError:
            raise UsageError(f"{label}: '{form.get(name, '')}' is no number") from None
        if not least <= value < float("inf") or value == 0:
            raise UsageError(f"{label} must be {'1 or more' if least else 'more than 0'}, not {form.get(name)}")


def entered(given: argparse.Namespace, form: dict[str, str]) -> argparse.Namespace:
    """`given` with the fields of `form` that are options of ours, of the types that they have. Raises UsageError."""
    both = copy.copy(given)
    for name in option_names() & form.keys():
        before, text = getattr(given, name), form[name]
        if isinstance(before, bool):
            setattr(both, name, json.loads(text) if text in ("true", "false") else bool(text))
        elif isinstance(before, int | float):
            try:
                setattr(both, name, type(before)(text))
            except ValueError:
                label = "--" + name.replace("_", "-")
                raise UsageError(f"{label}: '{text}' is no number") from None
        elif isinstance(before, list):
            setattr(both, name, text.split(","))
        else:
            setattr(both, name, text)
    return both
