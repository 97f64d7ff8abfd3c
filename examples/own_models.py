"""Three sites with three unlike networks and unlike data learn together by pFedES.

Run it with ``python examples/own_models.py``.
"""

from __future__ import annotations

import torch
from torch import nn

import potluck
from potluck.data import load

NETWORKS = [
    nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)),
    nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 12 * 12, 10)),
    nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(196, 128), nn.Tanh(), nn.Dropout(0.2), nn.Linear(128, 10)),
]


def main() -> None:
    """Give each site three classes of Fashion-MNIST, and train for ten rounds."""
    source = load("fashion-mnist-10k")
    x, y = source.x.float() / 255, source.y
    clients = []
    for site, network in enumerate(NETWORKS):
        mine = torch.isin(y, torch.tensor([3 * site, 3 * site + 1, 3 * site + 2])).nonzero().flatten()
        train, test = mine[:400], mine[400:800]
        clients.append(potluck.Client(model=network, train=(x[train], y[train]), test=(x[test], y[test])))

    federation = potluck.Federation("pfedes", clients=clients, mu=0.1, epochs=1, batch_size=32)
    summary = federation.run(rounds=10).summary
    for site, accuracy in enumerate(summary["client_accuracy"]):
        print(f"site {site}: {100 * accuracy:.1f} % of its test images right")
    print(f"travelled: {summary['bytes_up'] + summary['bytes_down']:,} bytes in all")
    print("site 2 sees:", [source.class_names[label] for label in federation.predict(2, x[:3])])


if __name__ == "__main__":
    main()
