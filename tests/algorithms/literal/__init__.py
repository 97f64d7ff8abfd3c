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
from .fd import fd
from .fedapen import fedapen, fedapen_predict
from .fedavg import fedavg
from .fedclassavg import TwoViewClient, contrastive_loss, distance, fedclassavg
from .fedgh import averaged_representations, fedgh
from .fedkd import fedkd
from .fedproto import fedproto
from .fedprox import fedprox
from .fedtgp import fedtgp
from .fml import fml
from .ktpfl import ktpfl
from .lgfedavg import lgfedavg
from .parted import Order
from .pfedafm import MixedClient, mixed_logits, pfedafm
from .pfedes import pfedes, pfedes_simultaneous

__all__ = [
    "Batches",
    "Forward",
    "LiteralClient",
    "MixedClient",
    "Order",
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
    "fd",
    "fedapen",
    "fedapen_predict",
    "fedavg",
    "fedclassavg",
    "fedgh",
    "fedkd",
    "fedproto",
    "fedprox",
    "fedtgp",
    "fml",
    "gradient",
    "ktpfl",
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
