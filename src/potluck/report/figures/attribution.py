"""Whether clients look at the same units: FedClassAvg's layer conductance, as ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.opened import own_model, plain
from potluck.report.figures.style import scale_beside, sheet
from potluck.report.format import short

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from torch import Tensor

    from potluck.federation import Federation
    from potluck.report.figures.opened import Opened
    from potluck.results import Group

_METHODS, _CLIENTS, _IMAGES = 3, 20, 10
"""How many are looked at: methods, clients of each, test images of each client."""


@dataclass(frozen=True)
class Ranks:
    """For one image, the rank of each unit's attribution (rows) at each client that classifies it right (columns)."""

    label: int
    clients: list[int]
    values: np.ndarray


def attribution_plot(groups: Sequence[Group], opened: Opened) -> Plot | None:
    """A map of ranks for FedClassAvg and, to compare, for other methods; None without FedClassAvg."""
    ours = [group for group in groups if group.algorithm == "fedclassavg"]
    if not ours:
        return None
    others = [group for group in groups if group.algorithm != "fedclassavg"]
    versions: dict[str, Figure] = {}
    reason = ""
    for group in [*ours, *others][:_METHODS]:
        try:
            names = opened.source(group.runs[0]).class_names
            versions[group.title] = _draw(ranks(opened.federation(group.runs[0])), names)
        except NoFigureError as error:
            reason = reason or str(error)
    if not versions:
        raise NoFigureError(reason)
    caption = (
        "Which units of the representation speak for the right class of one image, by layer conductance at the "
        "classifier: each column is a client that classifies it right, each row a unit, dark the units that count "
        "most. Horizontal stripes mean that clients rely on the same units; the correlation above says how much."
    )
    return Plot("attribution", "Unit attribution ranks", caption, versions)


def ranks(federation: Federation) -> Ranks:
    """Conductance ranks for the test image that most clients classify right."""
    import torch

    clients = federation.clients[:_CLIENTS]
    x = torch.cat([client.test.x[:_IMAGES] for client in clients if len(client.test)])
    y = torch.cat([client.test.y[:_IMAGES] for client in clients if len(client.test)])
    right = torch.stack([federation.predict(client, x) == y for client in clients])
    image = int(right.sum(0).argmax())
    able = [client for client, is_right in zip(clients, right[:, image].tolist(), strict=True) if is_right]
    if len(able) < 2:
        raise NoFigureError("no test image is classified right by two clients")
    label, inputs = int(y[image]), plain(federation, x[image : image + 1])
    found = [conductance(*own_model(federation, client), inputs, label) for client in able]
    if len({len(each) for each in found}) > 1:
        raise NoFigureError("the clients' representations are not equally wide")
    order = torch.stack(found, 1).argsort(0).argsort(0)
    return Ranks(label, [client.id for client in able], order.numpy())


def conductance(body: object, head: object, x: Tensor, label: int) -> Tensor:
    """How much each unit before the classifier adds to the logit of a class, on the way from a black image to ``x``.

    The integral of layer conductance has a closed form here: behind the units there is one linear layer.
    """
    import torch

    with torch.no_grad():
        units, none = (body(each).flatten(1)[0] for each in (x, torch.zeros_like(x)))  # type: ignore[operator]
        result: Tensor = head.weight[label] * (units - none)  # type: ignore[attr-defined]
    return result


def _draw(found: Ranks, class_names: Sequence[str]) -> Figure:
    import numpy as np

    units = len(found.values)
    figure, axes = sheet(3.6)
    image = axes.imshow(found.values / max(units - 1, 1), aspect="auto", cmap="cividis_r", interpolation="nearest")
    axes.grid(visible=False)
    axes.set_xticks(range(len(found.clients)), [str(client) for client in found.clients])
    axes.set_xlabel("client")
    axes.set_ylabel("unit")
    between = np.corrcoef(found.values.T)
    correlation = between[np.triu_indices(len(between), 1)].mean()
    name = short(class_names[found.label], 16)
    axes.set_title(f"an image of {name}\nmean rank correlation of two clients {correlation:.2f}", loc="left")
    scale_beside(figure, image, axes).set_ticks([0, 0.5, 1], labels=["least", "middle", "most"])
    return figure
