"""What everyone knows of the task."""

from __future__ import annotations

import pytest
from torch import nn

from potluck.contract import Task
from potluck.errors import ModelError


def test_what_clients_have_in_common() -> None:
    task = Task((3,), 2, width=5, model=lambda: nn.Linear(3, 2))
    assert task.common_width() == 5
    assert isinstance(task.common_model(), nn.Linear)
    assert task.common_model() is not task.common_model()


def test_what_clients_do_not_have_in_common_is_an_error() -> None:
    with pytest.raises(ModelError, match="one architecture on every client"):
        Task((3,), 2).common_model()
    with pytest.raises(ModelError, match="same representation width"):
        Task((3,), 2).common_width()
