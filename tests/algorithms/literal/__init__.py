"""The algorithms written out equation by equation: slow, in float64, to lay beside the papers."""

from .common import (
    Batches,
    Forward,
    LiteralClient,
    Params,
    PartedClient,
    Rule,
    aggregate,
    copied,
    cross_entropy,
    descend,
    gradient,
    part,
    samples,
    selected,
    trainable,
)
from .fedavg import fedavg
from .fedclassavg import TwoViewClient, contrastive_loss, distance, fedclassavg
from .fedgh import averaged_representations, fedgh
from .fedprox import fedprox
from .lgfedavg import lgfedavg
from .pfedafm import MixedClient, mixed_logits, pfedafm
from .pfedes import pfedes, pfedes_simultaneous

__all__ = [
    "Batches",
    "Forward",
    "LiteralClient",
    "MixedClient",
    "Params",
    "PartedClient",
    "Rule",
    "TwoViewClient",
    "aggregate",
    "averaged_representations",
    "contrastive_loss",
    "copied",
    "cross_entropy",
    "descend",
    "distance",
    "fedavg",
    "fedclassavg",
    "fedgh",
    "fedprox",
    "gradient",
    "lgfedavg",
    "mixed_logits",
    "part",
    "pfedafm",
    "pfedes",
    "pfedes_simultaneous",
    "samples",
    "selected",
    "trainable",
]
