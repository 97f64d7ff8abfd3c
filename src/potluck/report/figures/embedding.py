"""What clients' representations look like in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.opened import representations
from potluck.report.figures.style import INK, look, sheet
from potluck.report.format import short

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from potluck.federation import Federation
    from potluck.report.figures.opened import Opened
    from potluck.results import Group

_METHODS, _CLIENTS, _SAMPLES, _CLASSES = 4, 8, 50, 10
"""How many are drawn: methods, clients (as many as there are shapes to tell apart), samples of each, classes."""


def embedding_plot(groups: Sequence[Group], opened: Opened) -> Plot:
    """t-SNE of test samples' representations: coloured by class, shaped by client; a version for each method."""
    versions: dict[str, Figure] = {}
    reason = ""
    for group in groups[:_METHODS]:
        try:
            versions[group.title] = _draw(opened.federation(group.runs[0]), opened.source(group.runs[0]).class_names)
        except NoFigureError as error:
            reason = reason or str(error)
    if not versions:
        raise NoFigureError(reason)
    caption = (
        f"t-SNE of what the clients' own models make of their test samples, by the first seed: up to {_SAMPLES} "
        f"samples of each of up to {_CLIENTS} clients, coloured by class and shaped by client. Clients that learned "
        "alike have their samples of a class in one place; distances between far groups mean nothing."
    )
    return Plot("tsne", "Representations", caption, versions)


def _draw(federation: Federation, class_names: Sequence[str]) -> Figure:
    import numpy as np

    features, classes, owners = _samples(federation)
    places = _tsne(features)
    figure, axes = sheet(3.9)
    shown = sorted(set(classes.tolist()), key=lambda label: -int((classes == label).sum()))[:_CLASSES]
    for number, owner in enumerate(sorted(set(owners.tolist()))):
        rows = np.flatnonzero((owners == owner) & np.isin(classes, shown))
        colours = [look(sorted(shown).index(label)).colour for label in classes[rows]]
        x, y = places[rows].T
        axes.scatter(x, y, s=16, c=colours, marker=look(number).marker, linewidths=0, alpha=0.8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    _legend(figure, [short(class_names[label], 11) for label in sorted(shown)], sorted(set(owners.tolist())))
    return figure


def _legend(figure: Figure, classes: Sequence[str], clients: Sequence[int]) -> None:
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    rows = -(-len(classes) // 4) + -(-len(clients) // 4)
    figure.set_size_inches(width, height + 0.19 * rows)
    dots = [
        Line2D([], [], linestyle="", marker="o", color=look(number).colour, label=name)
        for number, name in enumerate(classes)
    ]
    shapes = [
        Line2D([], [], linestyle="", marker=look(number).marker, color=INK, markerfacecolor="none", label=f"client {c}")
        for number, c in enumerate(clients)
    ]
    # Both in one: two legends outside of the axes would lie on each other.
    blanks = [Line2D([], [], linestyle="", label=" ")] * (-len(dots) % 4)
    entries = _by_rows([*dots, *blanks, *shapes], 4)
    figure.legend(handles=entries, loc="outside lower center", ncols=4, columnspacing=1.0, handletextpad=0.2)


def _by_rows(entries: list[object], columns: int) -> list[object]:
    """Entries so ordered that a legend, which fills columns first, shows them row by row."""
    from matplotlib.lines import Line2D

    entries = [*entries, *([Line2D([], [], linestyle="", label=" ")] * (-len(entries) % columns))]
    return [entry for column in range(columns) for entry in entries[column::columns]]


def _samples(federation: Federation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Representations, classes and owners of some test samples."""
    import numpy as np

    features, classes, owners = [], [], []
    for client in [client for client in federation.clients if len(client.test)][:_CLIENTS]:
        features.append(representations(federation, client, client.test.x[:_SAMPLES]).cpu().double().numpy())
        classes.append(client.test.y[:_SAMPLES].cpu().numpy())
        owners.append(np.full(len(classes[-1]), client.id))
    if not features or sum(map(len, features)) < 10:
        raise NoFigureError("there are too few test samples")
    if len({each.shape[1] for each in features}) > 1:
        raise NoFigureError("the clients' representations are not equally wide")
    return np.concatenate(features), np.concatenate(classes), np.concatenate(owners)


def _tsne(features: np.ndarray) -> np.ndarray:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(features) - 1) / 3)
    places: np.ndarray = TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=500).fit_transform(features)
    return places
