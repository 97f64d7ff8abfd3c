"""What pFedES's extractor makes of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.opened import plain
from potluck.report.figures.style import WIDTH
from potluck.report.format import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from potluck.federation import Federation
    from potluck.report.figures.opened import Opened
    from potluck.results import Group

_IMAGES = 5


def enhanced_plot(groups: Sequence[Group], opened: Opened) -> Plot | None:
    """Images above, and below them as the shared extractor gives them to the clients' models; None without pFedES."""
    ours = [group for group in groups if group.algorithm == "pfedes"]
    if not ours:
        return None
    run = ours[0].runs[0]
    figure = _draw(opened.federation(run), opened.source(run).class_names)
    caption = (
        "Test images as they are, and as the server's extractor enhances them in the end; each enhanced image is "
        f"stretched to the full range of brightness. From {ours[0].title}, seed {run.seed}: models learn from both."
    )
    return Plot("enhanced", "Original and enhanced images", caption, {"": figure})


def _draw(federation: Federation, class_names: Sequence[str]) -> Figure:
    from matplotlib.figure import Figure

    images, labels = _one_of_each(federation)
    better = _enhance(federation, images)
    figure = Figure(figsize=(WIDTH, 2.35), layout="constrained")
    grid = figure.subplots(2, len(images), squeeze=False)
    for row, pictures in enumerate((images, better)):
        for axes, picture, label in zip(grid[row], pictures, labels, strict=True):
            axes.imshow(_shown(picture), cmap="gray", interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(visible=False)
            for spine in axes.spines.values():
                spine.set_visible(False)
            if row == 0:
                axes.set_title(short(class_names[label], 11), fontsize=8.5)
        grid[row][0].set_ylabel(("original", "enhanced")[row])
    return figure


def _one_of_each(federation: Federation) -> tuple[Tensor, list[int]]:
    """Test images of different classes, from the first clients that have them."""
    import torch

    found: dict[int, Tensor] = {}
    for client in federation.clients:
        for x, label in zip(client.test.x[:40], client.test.y[:40].tolist(), strict=True):
            if len(found) < _IMAGES:
                found.setdefault(label, x)
    if not found or next(iter(found.values())).ndim != 3:
        raise NoFigureError("the test samples are no images")
    return torch.stack(list(found.values())), list(found)


def _enhance(federation: Federation, images: Tensor) -> Tensor:
    import torch

    extractor = federation.networks(0)["extractor"]
    weights = {name.removeprefix("extractor."): value.cpu() for name, value in federation.server.items()}
    extractor.load_state_dict({name: value for name, value in weights.items() if name in extractor.state_dict()})
    with torch.no_grad():
        result: Tensor = extractor(plain(federation, images))
    return result


def _shown(picture: Tensor) -> object:
    """An image with brightness from 0 to 1 and its channels last; of channels that are no colours, the first."""
    picture = picture.double()
    low, high = picture.min(), picture.max()
    picture = (picture - low) / (high - low).clamp(min=1e-12)
    return (picture.permute(1, 2, 0) if len(picture) == 3 else picture[0]).numpy()
