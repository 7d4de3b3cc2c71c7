"""How the input of a task becomes the arguments of its function, and its result an output, by the hints of the function."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from . import _calls, _json
from .errors import Setup
from .failure import Failure

_NO_HINT: Any = Any


class Signature:
    """How the input of a task becomes the arguments of its function, and its result an output."""

    def __init__(self, fn: Callable[..., Any], skipped: int) -> None:
        self._fn = fn
        self._skipped = skipped
        parameters = list(inspect.signature(fn).parameters.values())
        if len(parameters) < skipped:
            missing = "`ctx`" if skipped else "a parameter"
            raise Setup(f"`{fn.__qualname__}` takes no {missing} as its first parameter", next_step="add it")
        self.parameters: list[inspect.Parameter] = parameters[skipped:]
        for parameter in self.parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise Setup(
                    f"`{fn.__qualname__}` takes `{parameter}`, which has no form that other languages could send",
                    next_step="name each parameter, or take one list or dict",
                )
        #: Parameters that take no keyword.
        self.positional: list[str] = [each.name for each in self.parameters if each.kind is each.POSITIONAL_ONLY]
        self._bindable = inspect.Signature(self.parameters)
        #: Most tasks have one parameter, and it need not be looked for.
        self._takes_one = len(self.parameters) == 1 and self.parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY
        self._readers: list[_json.Reader] | None = None
        self._result: _json.Reader | None = None

    def input_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _json.Json:
        """The input that stands for these arguments."""
        if len(args) == 1 and not kwargs and self._takes_one:
            return self._argument(self.parameters[0].name, args[0])
        try:
            bound = self._bindable.bind(*args, **kwargs)
        except TypeError as error:
            raise Setup(f"`{self._fn.__qualname__}`: {error}", next_step="pass what the function takes") from None
        if len(self.parameters) == 1:
            name = self.parameters[0].name
            return self._argument(name, bound.arguments.get(name))
        if not self.parameters:
            return None
        arguments = {name: self._argument(name, each) for name, each in bound.arguments.items()}
        return _calls.payload(arguments, f"the input of `{self._fn.__qualname__}`", "input")

    def _argument(self, name: str, value: object) -> _json.Json:
        subject = f"argument `{name}` of `{self._fn.__qualname__}`"
        return _calls.payload(value, subject, name, lambda: hints_of(self._fn).get(name, _NO_HINT))

    def output_of(self, result: object, subject: str | None = None) -> _json.Json:
        """The output that stands for what the function returned."""
        try:
            return _json.payload(result, self._result_hint)
        except _json.Unwritable as problem:
            raise problem.of(subject or f"what `{self._fn.__qualname__}` returned") from None

    def output_text_of(self, result: object) -> str:
        """The text of the output that stands for what the function returned."""
        try:
            return _json.payload_text(result, self._result_hint)
        except _json.Unwritable as problem:
            raise problem.of(f"what `{self._fn.__qualname__}` returned") from None

    def _result_hint(self) -> Any:
        return result_hint(self._fn)

    def arguments_of(self, value: _json.Json) -> dict[str, Any]:
        """The arguments that an input stands for. An input of another shape is a failure of DATA_QUALITY."""
        readers = self._argument_readers()
        try:
            if len(self.parameters) == 1:
                return self._only_argument(value, readers[0])
            return self._members(value, readers) if self.parameters else {}
        except _json.Unreadable as problem:
            failure = Failure(f"the input of `{self._fn.__name__}` cannot be read {problem}", category="DATA_QUALITY")
            failure.reason = "INPUT_UNREADABLE"
            raise failure from None

    def result(self, value: _json.Json) -> Any:
        """Reads an output by the hint of the result."""
        if self._result is None:
            self._result = _json.reader(result_hint(self._fn))
        return self._result(value, "")

    def input_schema(self) -> dict[str, Any]:
        """What an input may be, as a JSON Schema."""
        from ._schema import object_schema, schema_of  # only workers need it

        hints = hints_of(self._fn)
        if len(self.parameters) == 1:
            return schema_of(hints.get(self.parameters[0].name, _NO_HINT))
        if not self.parameters:
            return {}
        required = [each.name for each in self.parameters if each.default is each.empty]
        return object_schema({each.name: hints.get(each.name, _NO_HINT) for each in self.parameters}, required)

    def output_schema(self) -> dict[str, Any]:
        """What an output is, as a JSON Schema."""
        from ._schema import schema_of

        return schema_of(result_hint(self._fn))

    def _only_argument(self, value: _json.Json, reader: _json.Reader) -> dict[str, Any]:
        parameter = self.parameters[0]
        if value is None and parameter.default is not parameter.empty:
            return {}
        return {parameter.name: reader(value, "")}

    def _members(self, value: _json.Json, readers: list[_json.Reader]) -> dict[str, Any]:
        if not isinstance(value, dict):
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise _json.Unreadable("", f"expected an object with {names}")
        arguments = {}
        for parameter, reader in zip(self.parameters, readers, strict=True):
            if parameter.name in value:
                arguments[parameter.name] = reader(value[parameter.name], f".{parameter.name}")
            elif parameter.default is parameter.empty:
                raise _json.Unreadable("", f"`{parameter.name}` is missing")
        return arguments

    def _argument_readers(self) -> list[_json.Reader]:
        if self._readers is None:
            hints = hints_of(self._fn)
            self._readers = [_json.reader(hints.get(each.name, _NO_HINT)) for each in self.parameters]
        return self._readers


def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The resolved hints of a function, also those that name what its closure has."""
    if not getattr(fn, "__annotations__", None):
        return {}
    closure = inspect.getclosurevars(fn).nonlocals if inspect.isfunction(fn) and fn.__closure__ else {}
    try:
        return typing.get_type_hints(fn, localns=dict(closure) or None, include_extras=True)
    except NameError as error:
        raise Setup(
            f"the hints of `{fn.__qualname__}` cannot be resolved: {error}",
            next_step="define the type at module level, or without `from __future__ import annotations`",
        ) from None


def result_hint(fn: Callable[..., Any]) -> Any:
    """What a function returns, as far as its hints say it."""
    return hints_of(fn).get("return", _NO_HINT)
