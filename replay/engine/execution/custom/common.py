"""What the exceptions have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from replay.api.vocabulary import Function

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

Arguments = dict[str, Any]  # rebuilt arguments by parameter name
Rebuild = Callable[["Executor", "Prepared", Function], Arguments]
