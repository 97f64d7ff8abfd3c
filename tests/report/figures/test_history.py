"""Histories that draw themselves."""

from __future__ import annotations

import pytest

import potluck
from potluck.errors import ConfigError
from potluck.metrics.protocol import History
from test_python_runs import clients


@pytest.fixture(scope="module")
def history() -> History:
    return potluck.Federation("pfedes", clients(), device="cpu", evaluate_every=2).run(4, watch=potluck.Callback())


def test_it_draws_what_happened(history: History) -> None:
    lines = history.plot().axes[0].lines
    assert [line.get_label() for line in lines] == ["participants of each round", "all clients"]
    assert list(lines[0].get_ydata()) == [  # type: ignore[arg-type]
        100 * record["participants"]["accuracy"] for record in history.rounds
    ]
    sent = sum(record["bytes_up"] + record["bytes_down"] for record in history.rounds)
    assert history.plot("bytes").axes[0].lines[0].get_xdata()[-1] == sent  # type: ignore[index]


def test_a_notebook_shows_it(history: History) -> None:
    shown = history._repr_html_()
    assert "all clients, last round" in shown
    assert f"{100 * history.summary['all_last']:.2f}" in shown
    assert "data:image/png;base64," in shown
    assert "after 0 rounds" in History()._repr_html_()


def test_what_it_cannot_be_drawn_over(history: History) -> None:
    for wrong in ("epochs", "miles"):
        with pytest.raises(ConfigError, match="rounds"):
            history.plot(wrong)
