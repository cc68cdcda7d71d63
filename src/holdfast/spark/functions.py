"""Functions of the user's own, named in the configuration as `module:function`."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError


def find_function(
    name: str, *, owner: str, takes: str, error: type[HoldfastError]
) -> Callable[..., Any]:
    """Import `module:function`; modules in the current directory are found too.

    What is wrong with it is raised as an `error` of `owner`, which wants a function that takes
    `takes`.
    """
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise error(
            f'{owner}: function = "{name}" does not name a function.',
            hint='Write "module:function": "deliveries:send" is `send` in deliveries.py.',
        )
    module = _import(module_name, name, owner, error)
    found: Any = module
    for part in function_name.split("."):
        missing = not hasattr(found, part)
        found = getattr(found, part, None)
        if missing:
            raise error(
                f"{owner}: the module {module_name} has no {function_name} "
                f"({getattr(module, '__file__', None) or 'no file'}).",
                hint=_hint_for(module, function_name),
            )
    if not callable(found):
        raise error(
            f"{owner}: {name} is a {type(found).__name__}, not a function.",
            hint=f"Name a function that takes {takes}.",
        )
    function: Callable[..., Any] = found
    return function


def origin(error: BaseException, *, ignoring: str) -> str:
    """Where an exception was raised, as `file:line`: the innermost frame of the user's code.

    Frames of installed packages, and those of the file `ignoring`, are somebody else's.
    """
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != ignoring]
    own = [f for f in frames if not _installed(f.filename)]
    if not frames:
        return "the call itself"
    last = (own or frames)[-1]
    return f"{last.filename}:{last.lineno}"


def _installed(file: str) -> bool:
    return "site-packages" in file or file.startswith(("<", sys.base_prefix + "/lib/python"))


def _import(module_name: str, name: str, owner: str, refused: type[HoldfastError]) -> object:
    _make_current_directory_importable()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not _is_part_of(error.name, module_name):
            raise refused(
                f"{owner}: the module {module_name} needs the module {error.name}, which is "
                f"not installed ({origin(error, ignoring=__file__)}).",
                hint=f"Install {error.name} where Holdfast runs.",
            ) from error
        raise refused(
            f"{owner}: there is no module {error.name} for {name}.",
            hint=f"Looked in {Path.cwd()} and on Python's path. Put {module_name}.py there, "
            "or run from the directory that has it.",
        ) from error
    except Exception as error:
        raise refused(
            f"{owner}: the module {module_name} cannot be imported: "
            f"{type(error).__name__}: {error} ({origin(error, ignoring=__file__)}).",
            hint="Correct it, then start again.",
        ) from error


def _is_part_of(missing: str, module_name: str) -> bool:
    return module_name == missing or module_name.startswith(f"{missing}.")


def _make_current_directory_importable() -> None:
    # For good: what the module imports later, when it is called, is found as well.
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()


def _hint_for(module: object, function_name: str) -> str:
    names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
    close = get_close_matches(function_name, names, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    return f"It has {', '.join(sorted(names)[:10])}." if names else "It has no functions at all."
