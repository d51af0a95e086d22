"""Options that would run code from a model's folder or elsewhere on a hub: refused."""

from collections.abc import Mapping
from typing import Any

from tepui.core.checks import require

CODE = ("trust_remote_code", "code_revision", "auto_map", "custom_pipeline")


def require_no_code(options: Mapping[str, Any], inside: str = "") -> None:
    """Raise if options, or the configurations that they hold, bring code."""
    for name, value in options.items():
        argument = f"{inside}{name}"
        rule = "be left out, since a model's code is never run"
        require(name not in CODE, argument, rule, value)
        if name.endswith("_implementation"):
            rule = "not name a repository, since its code is never run"
            require("/" not in str(value), argument, rule, value)
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, Mapping):
                require_no_code(part, f"{argument}.")
