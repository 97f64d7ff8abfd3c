"""What the class of an algorithm has to declare: mistakes in it are said when the class is made, or first used."""

from __future__ import annotations

import re
import warnings
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticUserError

from potluck.errors import AlgorithmError, ConfigError
from potluck.settings import explain

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)  # which has no public name

_ATTRIBUTE = re.compile(r"`(\w+)(?: =|`)")


class Kind(ModelMetaclass):
    """Makes the classes of algorithms."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **more: Any) -> Kind:
        """Make a class whose attributes are settings, constants of the class or hooks, and clearly one of these."""
        try:
            with warnings.catch_warnings():
                # It is an error, below.
                warnings.filterwarnings("ignore", 'Field name ".*" in ".*" shadows an attribute', UserWarning)
                made: Any = super().__new__(mcs, name, bases, namespace, **more)
        except PydanticUserError as error:
            found = _ATTRIBUTE.search(str(error))
            if found is None:
                raise AlgorithmError(f"algorithm {name}: {str(error).splitlines()[0]}") from error
            raise AlgorithmError(_without_annotation(name, found[1])) from error
        _check_names(made)
        if "name" in namespace and "title" not in namespace:
            made.title = made.name  # a method derived from another has its own name, and would have the other's title
        return cast(Kind, made)

    def __call__(cls, *positional: Any, **settings: Any) -> Any:
        """Make an algorithm; a ``ConfigError`` says which of its settings is wrong."""
        if positional:
            raise ConfigError(f"{cls.__name__} takes its settings by name, as in {cls.__name__}(mu=0.1).")
        check_declared(cls)
        try:
            return super().__call__(**settings)
        except ValidationError as error:
            raise ConfigError(explain(error, cast(type[BaseModel], cls))) from error


def _without_annotation(kind: str, name: str) -> str:
    return (
        f"algorithm {kind}: {name!r} has a value and no annotation. A setting has its type, as in "
        f'`{name}: float = setting(0.1, "what it is")`; anything else is a constant of the class, as in '
        f"`{name}: ClassVar[...] = ...`."
    )


def _check_names(made: Any) -> None:
    """Raise if a setting takes the name of something that every algorithm has, or a property is a method."""
    root: Any = next((base for base in made.__mro__[::-1] if type(base) is Kind), made)
    if root is made:
        return
    for name in made.model_fields:
        if name in root.__class_vars__ or name in vars(root):
            raise AlgorithmError(
                f"algorithm {made.__name__}: {name!r} is something that every algorithm has, not a setting: annotate "
                f"it as a constant of the class, `{name}: ClassVar[...] = ...`."
            )
    for name, value in vars(made).items():
        if isinstance(vars(root).get(name), property) and callable(value):
            raise AlgorithmError(f"algorithm {made.__name__}: {name!r} is a property: write @property above it.")
    known = {name for name in {*vars(root), *root.__annotations__} if not name.startswith("_")}
    for name in sorted(vars(made).keys() - made.model_fields.keys() - known):
        inherited = name.startswith("_") or any(hasattr(base, name) for base in made.__bases__)
        if not inherited and (meant := get_close_matches(name, known, 1, 0.8)):
            raise AlgorithmError(
                f"algorithm {made.__name__}: the contract has no {name!r}: did you mean {meant[0]!r}? A helper of its "
                "own begins with an underscore."
            )


def check_declared(kind: type) -> None:
    """Raise if a class cannot be used as an algorithm."""
    name = getattr(kind, "name", None)
    if not isinstance(name, str):
        raise AlgorithmError(
            f'algorithm {kind.__name__} has no name: give the class one, as in `name: ClassVar[str] = "mine"`.'
        )
    if not getattr(kind, "__pydantic_complete__", True) and not cast(type[BaseModel], kind).model_rebuild(
        raise_errors=False
    ):
        raise AlgorithmError(f"algorithm {kind.__name__}: the type of one of its settings is not to be found.")
    for constant in ("shared", "needs", "upload_meta"):
        value = getattr(kind, constant)
        if not isinstance(value, property) and (isinstance(value, str) or not _is_names(value)):
            raise AlgorithmError(f"algorithm {kind.__name__}: {constant!r} is {value!r}, and not several names.")


def _is_names(value: object) -> bool:
    return isinstance(value, tuple | list | set | frozenset) and all(isinstance(each, str) for each in value)
