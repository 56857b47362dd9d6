"""Registries of classes by name: initializers, metrics, optimizers (``mx.registry``)."""

from __future__ import annotations

import json
import warnings
from typing import Any, Callable, TypeVar, cast

from .base import TypeError_, ValueError_, suggestion

__all__ = ["get_alias_func", "get_create_func", "get_register_func", "get_registry"]

_T = TypeVar("_T")
_REGISTRIES: dict[type, dict[str, type]] = {}


def get_registry(base_class: type[_T]) -> dict[str, type[_T]]:
    """Return a copy of the registry of a base class."""
    return dict(_REGISTRIES.get(base_class, {}))


def get_register_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """Return the decorator that registers subclasses of ``base_class``.

    Parameters
    ----------
    base_class : type
    nickname : str
        Name of a member in messages, such as ``"initializer"``.

    Returns
    -------
    callable
        ``register(klass, name=None)``; returns the class.
    """
    registry = _REGISTRIES.setdefault(base_class, {})

    def register(klass: type[_T], name: str | None = None) -> type[_T]:
        if not issubclass(klass, base_class):
            raise TypeError_(
                f"register: {klass.__name__} is not a subclass of {base_class.__name__}, "
                f"so it cannot be registered as {nickname}"
            )
        key = (klass.__name__ if name is None else name).lower()
        if registry.get(key, klass) is not klass:
            warnings.warn(
                f"{nickname} {key!r} was {registry[key].__qualname__} and is now "
                f"{klass.__qualname__}",
                UserWarning,
                stacklevel=2,
            )
        registry[key] = klass
        return klass

    register.__doc__ = f"Register a class as {nickname} under its lower-case name or ``name``."
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """Return ``alias(*names)``, which makes a decorator that registers names for a class."""
    register = get_register_func(base_class, nickname)

    def alias(*names: str) -> Callable[[type[_T]], type[_T]]:
        def decorate(klass: type[_T]) -> type[_T]:
            for name in names:
                register(klass, name)
            return klass

        return decorate

    alias.__doc__ = f"Return a decorator that registers a class as {nickname} under names."
    return alias


def _described(nickname: str, spec: str) -> tuple[Any, dict[str, Any]]:
    """Return name and arguments from a JSON text, which may occur in a symbol file."""
    try:
        found = json.loads(spec)
    except (ValueError, RecursionError) as error:
        raise ValueError_(f"{nickname}: {spec[:100]!r} must be valid JSON: {error}") from None
    pair = isinstance(found, list) and len(found) == 2
    if not isinstance(found, dict) and not (pair and isinstance(found[1], dict)):
        raise ValueError_(
            f"{nickname}: JSON text must be [name, {{arguments}}], got {spec[:100]!r}"
        )
    name, options = (found.pop(nickname, None), found) if isinstance(found, dict) else found
    if not isinstance(name, str) or name[:1] in ("[", "{"):
        raise ValueError_(
            f"{nickname}: the name in [name, {{arguments}}] or "
            f'{{"{nickname}": name, arguments}} must be that of a registered class, got {name!r} '
            f"in {spec[:100]!r}"
        )
    return name, options


def get_create_func(base_class: type[_T], nickname: str) -> Callable[..., _T]:
    """Return the function that makes an instance from a name.

    Returns
    -------
    callable
        ``create(spec, *args, **kwargs)``; ``spec`` is an instance (returned as it is), a
        registered name, or the JSON text of ``[name, {arguments}]``.
    """
    registry = _REGISTRIES.setdefault(base_class, {})

    def find(name: str) -> type:
        klass = registry.get(name.lower())
        if klass is None:
            raise ValueError_(
                f"{nickname}: {name!r} is not registered"
                f"{suggestion(name.lower(), registry) or '.'} Known: {', '.join(sorted(registry))}"
            )
        return klass

    def create(*args: Any, **kwargs: Any) -> _T:
        if args:
            spec, args = args[0], args[1:]
        else:
            spec = kwargs.pop(nickname, None)
        if isinstance(spec, base_class):
            if args or kwargs:
                raise ValueError_(
                    f"{nickname}: an instance of {type(spec).__name__} must be given alone, got "
                    f"{len(args) + len(kwargs)} further arguments"
                )
            return spec
        if isinstance(spec, dict):
            return create(**spec)
        if not isinstance(spec, str):
            raise TypeError_(
                f"{nickname}: argument must be a name or an instance of {base_class.__name__}, "
                f"got {spec!r} of type {type(spec).__name__}"
            )
        if spec[:1] in ("[", "{"):
            if args or kwargs:
                raise ValueError_(
                    f"{nickname}: the JSON text {spec[:100]!r} must be given alone, got "
                    f"{len(args) + len(kwargs)} further arguments"
                )
            name, options = _described(nickname, spec)
            klass = find(name)
            try:
                return cast("_T", klass(**options))
            except TypeError as error:
                raise ValueError_(
                    f"{nickname}: {spec[:100]!r} does not describe a {klass.__name__}: {error}"
                ) from error
        return cast("_T", find(spec)(*args, **kwargs))

    create.__doc__ = f"Make a {nickname} from a name, an instance or JSON text."
    return create
