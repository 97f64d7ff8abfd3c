"""The algorithms written out equation by equation: slow, in float64, to lay beside the papers."""

from .common import (
    Batches,
    Forward,
    LiteralClient,
    Params,
    Rule,
    aggregate,
    copied,
    cross_entropy,
    descend,
    gradient,
    samples,
    selected,
    trainable,
)
from .fd import fd
from .fedapen import fedapen, fedapen_predict
from .fedavg import fedavg
from .fedkd import fedkd
from .fedproto import fedproto
from .fedtgp import fedtgp
from .fml import fml
from .ktpfl import ktpfl
from .parted import Order, PartedClient
from .pfedes import pfedes, pfedes_simultaneous

__all__ = [
    "Batches",
    "Forward",
    "LiteralClient",
    "Order",
    "Params",
    "PartedClient",
    "Rule",
    "aggregate",
    "copied",
    "cross_entropy",
    "descend",
    "fd",
    "fedapen",
    "fedapen_predict",
    "fedavg",
    "fedkd",
    "fedproto",
    "fedtgp",
    "fml",
    "gradient",
    "ktpfl",
    "pfedes",
    "pfedes_simultaneous",
    "samples",
    "selected",
    "trainable",
]
