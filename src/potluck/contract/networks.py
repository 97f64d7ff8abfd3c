"""A client's networks, called by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from potluck.contract.apart import keeps_samples_apart
from potluck.contract.task import Task
from potluck.errors import ModelError

_JOINING = frozenset({"cuda"})
"""Kinds of devices where one pass over several batches takes less time than one over each: on a CPU it takes more."""


def named_tensors(name: str, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter and buffer of the network ``name``, as ``name.path``; one that has several paths comes with each.

    >>> [path for path, _ in named_tensors("head", nn.Linear(4, 2))]
    ['head.weight', 'head.bias']
    """
    # Not its state_dict: that leaves out buffers that are not persistent, which clients in turn would share.
    for path, parameter in module.named_parameters(remove_duplicate=False):
        yield f"{name}.{path}", parameter
    for path, buffer in module.named_buffers(remove_duplicate=False):
        yield f"{name}.{path}", buffer


def check_fit(state: Mapping[str, Tensor], own: Mapping[str, Tensor], *, whole: bool = False) -> None:
    """Refuse values for weights that networks do not have, or have in another shape; ``whole``, if any is missing."""
    if whole and (missing := sorted(own.keys() - state.keys())):
        raise ModelError(f"{missing[0]!r} is missing from what a client's networks hold.")
    for path, values in state.items():
        if path not in own or values.shape != own[path].shape:
            shape = f"shape {tuple(own[path].shape)} there" if path in own else "no such weight there"
            raise ModelError(f"{path!r} of shape {tuple(values.shape)} does not fit the networks: {shape}.")


class Networks:
    """Named networks, and the weights they run on: their own, or those of one client of a stack.

    Losses and ``predict`` call a network as an attribute, ``net.body(x)``, and the client's own model,
    ``head(body(x))``, as ``net(x)``. Both work on plain modules and, where ``weights`` are given, as pure functions
    of them, so that the same loss runs under ``torch.func.vmap``.

    >>> net = Networks({"body": nn.Flatten(), "head": nn.Linear(4, 2)})
    >>> import torch
    >>> net(torch.zeros(3, 2, 2)).shape, sorted(net.parameters("head"))
    (torch.Size([3, 2]), ['head.bias', 'head.weight'])
    """

    def __init__(
        self, modules: Mapping[str, nn.Module], weights: Mapping[str, Tensor] | None = None, task: Task | None = None
    ) -> None:
        for name in modules:
            if hasattr(type(self), name) or name == "modules":
                raise ModelError(f"a network cannot be called {name!r}: that is something else of all networks.")
        self.modules = dict(modules)
        self._weights = weights
        self._task = task

    @property
    def task(self) -> Task:
        """What these networks learn."""
        if self._task is None:
            raise ModelError("these networks were made without a task.")
        return self._task

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        """The network called ``name``."""
        if name.startswith("_") or name not in self.modules:
            raise AttributeError(f"no network {name!r}: this client holds {', '.join(self.modules)}.")
        if self._weights is None:
            return self.modules[name]
        return lambda *inputs: self._run(name, inputs, self._weights or {})

    def __call__(self, x: Tensor) -> Tensor:
        """The client's own model: ``head(body(x))``."""
        return self.head(self.body(x))

    def each(self, *inputs: Tensor, tracked: int | None = None) -> tuple[Tensor, ...]:
        """The client's own model for each of several batches.

        On a GPU in one pass, which takes less time than several, if samples are known not to meet in the model.

        Args:
            *inputs: The batches.
            tracked: Which of them alone updates the running statistics of batch norm; by default each does.
        """
        if inputs[0].device.type in _JOINING and keeps_samples_apart(self.modules["body"], self.modules["head"]):
            return torch.split(self(torch.cat(inputs)), [len(x) for x in inputs])
        outputs = []
        for number, x in enumerate(inputs):
            with nullcontext() if tracked in (None, number) else self.untracked():
                outputs.append(self(x))
        return tuple(outputs)

    @contextmanager
    def untracked(self) -> Iterator[None]:
        """While active, no batch norm of these networks updates its running statistics.

        In train mode it still normalises by the statistics of the batch.
        """
        with ExitStack() as afterwards:
            for part in (part for module in self.modules.values() for part in module.modules()):
                if isinstance(part, _BatchNorm):
                    afterwards.callback(setattr, part, "track_running_stats", part.track_running_stats)
                    part.track_running_stats = False
                elif isinstance(part, _InstanceNorm):
                    # Without tracking it would normalise by the batch in eval mode too.
                    afterwards.callback(setattr, part, "momentum", part.momentum)
                    part.momentum = 0.0
            yield

    def call(self, name: str, *inputs: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        """Run the network ``name`` on ``weights`` (``name.path``), for example on received ones.

        It runs in eval mode and changes nothing: not the weights, and no buffer of its own. What ``weights`` does not
        name, such as integer counters, is the network's own.
        """
        module = self._named(name)
        mode = module.training
        module.eval()
        try:
            return self._run(name, inputs, {**self._held(name), **weights})
        finally:
            module.train(mode)

    def _named(self, name: str) -> nn.Module:
        """The network ``name``, or an error that says which there are."""
        if name not in self.modules:
            raise ModelError(f"no network {name!r}: this client holds {', '.join(self.modules)}.")
        return self.modules[name]

    def _run(self, name: str, inputs: tuple[Tensor, ...], weights: Mapping[str, Tensor]) -> Tensor:
        prefix = f"{name}."
        own = {path.removeprefix(prefix): tensor for path, tensor in weights.items() if path.startswith(prefix)}
        result: Tensor = functional_call(self.modules[name], own, inputs)
        return result

    def _held(self, name: str) -> dict[str, Tensor]:
        """Every parameter and buffer of the network ``name``, as it is used now."""
        return {
            path: tensor if self._weights is None else self._weights[path]
            for path, tensor in named_tensors(name, self._named(name))
        }

    def parameters(self, name: str) -> dict[str, Tensor]:
        """The learnable weights of the network ``name``, as ``name.path``, to be used inside a loss."""
        paths = [f"{name}.{path}" for path, _ in self._named(name).named_parameters()]
        if self._weights is not None:
            return {path: self._weights[path] for path in paths}
        return dict(zip(paths, self.modules[name].parameters(), strict=True))

    def state(self, *names: str) -> dict[str, Tensor]:
        """A copy of every parameter and buffer of the networks ``names`` (of all, without names)."""
        result: dict[str, Tensor] = {}
        for name in names or self.modules:
            result |= {path: tensor.detach().clone() for path, tensor in self._held(name).items()}
        return result

    def travelling(self, *names: str) -> dict[str, Tensor]:
        """A copy of what travels of the networks ``names``: their ``state_dict`` without its integer counters."""
        if not names:
            return {}
        lasting = {f"{name}.{path}" for name in names for path in self._named(name).state_dict()}
        held = self.state(*names)
        return {path: tensor for path, tensor in held.items() if path in lasting and tensor.is_floating_point()}

    def load(self, state: Mapping[str, Tensor], *, whole: bool = False) -> None:
        """Copy the values of ``state`` (``name.path``) into the networks.

        What it does not name stays as it is; with ``whole`` it has to name everything.
        """
        own = {path: tensor for name, module in self.modules.items() for path, tensor in named_tensors(name, module)}
        check_fit(state, own, whole=whole)
        for path, values in state.items():
            own[path].detach().copy_(values)
