"""A recipe: everything that determines a run's result except the seed, as data. Imports no torch."""

import dataclasses
import hashlib
import json
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ict.algorithms import ALGORITHMS
from ict.base.errors import UserError, unknown
from ict.base.fields import Option, check, options, parse
from ict.base.registry import Registry, is_outside
from ict.data import DATASETS
from ict.engine.settings import Anchor, Average, Eval, Inputs, Optimizer, Rate, Split, Swa, Train
from ict.networks import NETWORKS

OWN = "own"  # the name of a dataset or network that the caller passes in


@dataclass(frozen=True)
class Component:
    """A registered dataset, network or algorithm by name, with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reported:
    """The paper's test error in percent, with its standard deviation if the paper reports one."""

    mean: float
    std: float | None = None


_COMPONENTS: dict[str, Registry] = {"dataset": DATASETS, "network": NETWORKS, "algorithm": ALGORITHMS}
_SECTIONS = {
    "split": Split,
    "inputs": Inputs,
    "optimizer": Optimizer,
    "rate": Rate,
    "average": Average,
    "swa": Swa,
    "train": Train,
    "anchor": Anchor,
    "eval": Eval,
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    dataset: Component
    network: Component
    algorithm: Component
    split: Split = field(default_factory=Split)
    inputs: Inputs = field(default_factory=Inputs)
    optimizer: Optimizer = field(default_factory=Optimizer)
    rate: Rate = field(default_factory=Rate)
    average: Average = field(default_factory=Average)
    swa: Swa = field(default_factory=Swa)
    train: Train = field(default_factory=Train)
    anchor: Anchor = field(default_factory=Anchor)
    eval: Eval = field(default_factory=Eval)
    name: str = ""  # as in `ict list`; this and the fields below do not affect a run
    reported: Reported | None = None
    note: str = ""  # the source of the settings, and the differences from it

    @property
    def outside_code(self) -> frozenset[str]:
        """The components from outside this package, such as "mine:Mine"."""
        return frozenset(name for kind in _COMPONENTS if is_outside(name := getattr(self, kind).name))

    def resolved(self) -> "Recipe":
        """The recipe with all options of its components filled in and checked."""
        components: dict[str, Any] = {kind: _resolve(kind, getattr(self, kind)) for kind in _COMPONENTS}
        return dataclasses.replace(self, **components)

    def to_dict(self) -> dict[str, Any]:
        """All settings of a run, ready for JSON."""
        named: dict[str, Component] = {kind: getattr(self, kind) for kind in _COMPONENTS}
        components = {kind: {"name": component.name, **component.options} for kind, component in named.items()}
        return components | {name: dataclasses.asdict(getattr(self, name)) for name in _SECTIONS}

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that identify a resolved recipe: all but options that came later and have their default."""
        content = self.to_dict()
        for name, target in _targets(self).items():
            for key, option in options(target).items():
                if option.later and content[name].get(key) == option.default:
                    content[name].pop(key, None)
            if not content[name]:
                del content[name]
        return content

    @property
    def hash(self) -> str:
        """Six hex digits that identify a resolved recipe."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:6]


def from_dict(content: Mapping[str, Any], name: str = "", allow_code: Collection[str] = ()) -> Recipe:
    """The recipe from the output of `to_dict`, or from a run's recipe.json, which also has a name and the run's seed.

    Its components must be registered, or be listed in `allow_code` under names such as "mine:Mine".
    """
    name = _checked_name(content.get("name", name))
    own = ("name", "seed", "changed_at", "hashes", "prior")  # of a run
    content = {key: value for key, value in content.items() if key not in own}
    if not all(isinstance(values, dict) for values in content.values()):
        raise UserError("a recipe must be an object of objects, such as {'train': {'steps': 1000}}.")
    made: dict[str, Any] = {}
    for section, values in content.items():
        if section in _COMPONENTS:
            if not isinstance(values.get("name"), str):
                raise UserError(f"{section} needs a name, such as '{next(iter(_COMPONENTS[section]))}'.")
            component = Component(values["name"], {key: value for key, value in values.items() if key != "name"})
            if component.name != OWN:
                _COMPONENTS[section].from_file(component.name, allow_code)
            made[section] = _resolve(section, component)
        elif section in _SECTIONS:
            _known_options(section, _SECTIONS[section], values)
            made[section] = _SECTIONS[section](**values)
        else:
            raise unknown("section", section, [*_COMPONENTS, *_SECTIONS])
    for kind in _COMPONENTS:
        if kind not in made:
            raise UserError(f"the recipe has no {kind}: name one of {', '.join(_COMPONENTS[kind])}.")
    return Recipe(**made, name=name)


def _checked_name(name: Any) -> str:
    """Runs are stored in a folder of this name, with - for each slash: it must not lead anywhere else."""
    if not isinstance(name, str) or len(name) > 200 or not name.isprintable() or name in (".", ".."):
        raise UserError(f"name is {reprlib.repr(name)}: it must be a printable word of at most 200 characters.")
    return name


def change(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """The recipe with settings applied: strings such as `train.steps=500`, or `algorithm=mixup` for a component."""
    recipe = recipe.resolved()
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise UserError(f"'{setting}' is not a setting: write key=value, such as train.steps=2000.")
        section, _, name = key.partition(".")
        if section in _COMPONENTS and name in ("", "name"):
            replaced: Any = _resolve(section, Component(text))
            recipe = dataclasses.replace(recipe, **{section: replaced})
            continue
        known = keys(recipe)
        if key not in known:
            raise unknown("key", key, known)
        value = parse(text, known[key], key)
        if section in _COMPONENTS:
            component: Component = getattr(recipe, section)
            changed: Any = _resolve(section, Component(component.name, {**component.options, name: value}))
        else:
            changed = dataclasses.replace(getattr(recipe, section), **{name: value})
        recipe = dataclasses.replace(recipe, **{section: changed})
    return recipe


def keys(recipe: Recipe) -> dict[str, Any]:
    """All keys that can be set, with their types."""
    return {
        f"{section}.{name}": option.hint
        for section, target in _targets(recipe).items()
        for name, option in options(target).items()
    }


def _targets(recipe: Recipe) -> dict[str, Callable[..., Any]]:
    """The classes and functions that declare the options of a recipe's sections and components."""
    targets: dict[str, Callable[..., Any]] = {**_SECTIONS}
    for kind, registry in _COMPONENTS.items():
        if (name := getattr(recipe, kind).name) != OWN:
            targets[kind] = registry.resolve(name)
    return targets


def _resolve(kind: str, component: Component) -> Component:
    if component.name == OWN:
        return component
    known = _known_options(kind, _COMPONENTS[kind].resolve(component.name), component.options)
    values = {name: component.options.get(name, option.default) for name, option in known.items()}
    return Component(component.name, {n: check(v, known[n].hint, f"{kind}.{n}") for n, v in values.items()})


def _known_options(section: str, target: Callable[..., Any], names: Iterable[str]) -> dict[str, Option]:
    """The options of a section or component; a UserError if one of `names` is not among them."""
    known = options(target)
    for name in names:
        if name not in known:
            raise unknown("key", f"{section}.{name}", (f"{section}.{k}" for k in known))
    return known
