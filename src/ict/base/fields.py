"""Typed options of dataclasses, networks and readers: list them, check values, parse strings."""

import dataclasses
import inspect
import reprlib
from collections.abc import Callable, Mapping
from math import inf
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from ict.base.errors import UserError

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


_LARGEST = 10**300  # whole number that is taken for a float


_LATER = "later"
T = TypeVar("T")
Later = Annotated[T, _LATER]
"""The type of an option that came later: at its default, which must never change, it is left out of a recipe's hash."""


class Option(NamedTuple):
    hint: Any
    default: Any
    later: bool


def options(target: Callable[..., Any]) -> dict[str, Option]:
    """The keyword-only parameters of a class or function: those that a recipe may set."""
    function = target.__init__ if inspect.isclass(target) else target
    try:
        annotated = target if dataclasses.is_dataclass(target) else function
        hints, marked = get_type_hints(annotated), get_type_hints(annotated, include_extras=True)
        return {
            name: Option(hints[name], parameter.default, _LATER in getattr(marked[name], "__metadata__", ()))
            for name, parameter in inspect.signature(target).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
    except (KeyError, NameError, TypeError, ValueError) as problem:  # a user's own class or function may be anything
        name = getattr(target, "__qualname__", repr(target))
        raise UserError(f"the options of {name} cannot be read ({problem}): write 'name: type' for each.") from None


def check(value: Any, hint: Any, name: str) -> Any:
    """`value` converted to the type `hint` (an int to a float, a list to a tuple), or a UserError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        return check(value, _only(arguments, name), name)
    if origin is Literal:
        if value in arguments:
            return value
        raise UserError(f"{name} is {reprlib.repr(value)}: choose from {', '.join(map(str, arguments))}.")
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(check(item, arguments[0], name) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST:
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise UserError(f"{name} is {reprlib.repr(value)}: it must be {describe(hint)}.")


def _only(arguments: tuple[Any, ...], name: str) -> Any:
    """The one type of an optional option."""
    types = [argument for argument in arguments if argument is not NoneType]
    if len(types) != 1:
        raise UserError(f"{name} may be {' or '.join(map(describe, types))}: give it one type, or one type and None.")
    return types[0]


def parse(text: str, hint: Any, name: str) -> Any:
    """Parse a string from the command line as the type `hint`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if text.lower() in ("none", "null"):
            return None
        return parse(text, _only(arguments, name), name)
    if origin is tuple:
        return tuple(parse(item, arguments[0], name) for item in text.split(",") if item)
    value: Any = text
    try:
        if hint is bool:
            value = _BOOLEANS[text.lower()]
        elif hint in (int, float):
            value = hint(text)
    except (KeyError, ValueError):
        raise UserError(f"{name} is '{text}': it must be {describe(hint)}.") from None
    return check(value, hint, name)


def describe(hint: Any) -> str:
    """A type in words for error messages."""
    words: Mapping[Any, str] = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a string",
        NoneType: "none",
    }
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(describe(argument) for argument in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a list such as 1,2,3 of {describe(get_args(hint)[0])}"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    return words.get(hint, str(hint))


def check_fields(instance: Any) -> None:
    """For `__post_init__` of a frozen dataclass: check every field against its annotated type."""
    hints = get_type_hints(type(instance))
    for field in dataclasses.fields(instance):
        object.__setattr__(instance, field.name, check(getattr(instance, field.name), hints[field.name], field.name))


def positive(**values: float) -> None:
    """Raise a UserError unless every value is finite and above zero."""
    for name, value in values.items():
        if not 0 < value < inf:
            raise UserError(f"{name} is {value}: it must be above 0{_and_finite(value)}.")


def at_most(limit: float, **values: float) -> None:
    """A UserError for the first value above a limit that no sensible use comes near."""
    for name, value in values.items():
        if value > limit:
            raise UserError(f"{name} is {value}: it must be at most {limit:,}.")


def at_least_zero(**values: float) -> None:
    """Raise a UserError unless every value is finite and at least zero."""
    for name, value in values.items():
        if not 0 <= value < inf:
            raise UserError(f"{name} is {value}: it must be 0 or more{_and_finite(value)}.")


def _and_finite(value: float) -> str:
    return " and finite" if value == inf else ""


def share(**values: float) -> None:
    """Raise a UserError unless every value lies between 0 and 1."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise UserError(f"{name} is {value}: it must lie between 0 and 1.")
