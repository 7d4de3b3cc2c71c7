"""One attempt of a durable function: drives the code, hands out commands, takes in answers.

The code is a coroutine, driven with `send(None)`. An operation of `flow` yields an `Until`: the code goes on when that is
ready. Anything else that it yields comes from outside, and stops the run. The same start and the same answers give the same
commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _json, _stop
from ._commands import Code, Command, Complete, Last, Recorded, Until
from ._engine import Core
from ._stop import Stop
from .failure import Failure, of_exception
from .options import Spend


class Run:
    """One attempt. Drop it to give the attempt up: what was recorded stays."""

    def __init__(
        self, core: Core, function: Callable[[Core], Code], output_of: Callable[[object], _json.Json] = _json.payload
    ) -> None:
        self.core = core
        self._function = function
        #: The JSON form of what the function returns.
        self._output_of = output_of
        self._code: Code | None = None
        self._until: Until | None = None
        #: What the function returned, or raised, while a call was under way.
        self._returned: tuple[Any, Failure | None, BaseException | None] | None = None
        self._is_over = False
        self._call_function()

    def poll(self) -> Command | None:
        """The next command. None means that the work of a step, or a call, is under way. Raises `Stop`."""
        assert not self._is_over, "a run gives no commands after its end"
        try:
            command = self._turn()
        except Stop:
            self._is_over = True
            raise
        self._is_over = isinstance(command, Complete | Last)
        return command

    def recorded(self, answer: Recorded) -> None:
        """The answer to the last `Record`."""
        self.core.recorded(answer)

    def worked(
        self,
        key: str,
        number: int,
        result: Any = None,
        error: BaseException | None = None,
        spend: Spend | None = None,
        effects: list[Any] | None = None,
        hint: Callable[[], Any] | None = None,
    ) -> None:
        """The work of a try returned this, or raised that."""
        failure = of_exception(error) if error is not None else None
        if failure is None:
            try:
                result = self.core.sealed(_json.payload(result, hint))
            except _json.Unwritable as problem:
                failure = of_exception(problem.of(f"what step `{key}` returned"))
        self.core.worked(key, number, result, failure, spend, effects or [])

    def time_out(self, key: str, number: int) -> None:
        """The time of a try is over. One that has ended meanwhile stays as it is."""
        failure = Failure("the step took longer than its timeout", category="TIMEOUT", reason="STEP_TIMEOUT")
        self.core.worked(key, number, None, failure, None, [])

    def close(self) -> None:
        """Gives the attempt up."""
        self._is_over = True
        self._drop_code()

    def _turn(self) -> Command | None:
        core = self.core
        while True:
            ending = core.take_ending()
            if ending is not None:
                last = self._end(ending)
                if last is not None:
                    return last
                continue
            command = core.next_command()
            if command is not None:
                return command
            if self._returned is not None:
                return self._report()
            if self._until is None or self._until.ready():
                self._go_on()
            elif not core.settle():
                return None

    def _call_function(self) -> None:
        self._until = None
        try:
            self._code = self._function(self.core)
        except Failure as failure:
            self._returned = (None, failure, None)

    def _go_on(self) -> None:
        core, code = self.core, self._code
        assert code is not None, "the code lives until the run is over"
        core.is_inside = True
        try:
            yielded = code.send(None)
        except StopIteration as end:
            self._return(end.value)
        except Stop as stop:
            core.end(stop)
        except Failure as failure:
            self._returned = (None, failure, None)
        except Exception as bug:
            self._returned = (None, None, bug)
        else:
            if type(yielded) is Until:
                self._until = yielded
            else:
                core.end_by_foreign_await()
        finally:
            core.is_inside = False

    def _return(self, value: Any) -> None:
        unbegun = self.core.unbegun()
        if unbegun:
            self.core.end(_stop.not_awaited(unbegun))
            return
        try:
            self._returned = (self.core.sealed(self._output_of(value)), None, None)
        except _json.Unwritable as problem:
            self._returned = (None, of_exception(problem), None)

    def _end(self, ending: Any) -> Command | None:
        """Drops the code. The last command, or None if the run goes on."""
        self._drop_code()
        if isinstance(ending, Stop):
            raise ending
        if isinstance(ending, Last):
            return ending
        if isinstance(ending, Failure):
            self._returned = (None, ending, None)
            return None
        self.core.start_over(ending)
        self._call_function()
        return None

    def _drop_code(self) -> None:
        """Closes the coroutine. Its `finally` blocks run; what they await is not done."""
        code, self._code = self._code, None
        if code is None:
            return
        self.core.is_closing = True
        try:
            code.close()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self.core.is_closing = False

    def _report(self) -> Complete | None:
        """The end, as soon as no call is under way."""
        if self.core.has_call_under_way:
            return None
        assert self._returned is not None, "the function has returned"
        output, failure, bug = self._returned
        difference = None if bug is not None else self.core.unreached()
        if difference is not None:
            raise difference
        steps, children = self.core.take_rest()
        if bug is not None:
            return Complete(steps, children, "FAILED", None, of_exception(bug), bug)
        return Complete(steps, children, "FAILED" if failure else "SUCCEEDED", output, failure)
