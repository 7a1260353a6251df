"""Computes in the pause after an answer what the next keystroke will ask (C9).

Stands before the pipeline and lets everything through. When an editor's answer was delivered, and nothing else is to be
done, it guesses the next keystrokes and has their answers computed as idle work, until a share of a usual pause is
spent. The next request of the same cursor, whatever it is, ends that at once.

    keystroke ── answer ── │ alternatives │ guesses as one batch ... │ budget spent, or a keystroke
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from halfline.errors import HalflineError
from halfline.pipeline.deadline import SetAlarm, event_loop_alarm
from halfline.pipeline.foresight import Errand, Foresight
from halfline.pipeline.late_work import cursor_of
from halfline.pipeline.pipeline import Pipeline
from halfline.request import (
    ChoiceDelta,
    Completion,
    CompletionRequest,
    Document,
    FinishReason,
    Identity,
    Receipt,
)
from halfline.telemetry.log import fields
from halfline.warmup.next_keystrokes import next_requests
from halfline.warmup.options import WarmupOptions
from halfline.warmup.pauses import Pauses

_log = logging.getLogger(__name__)

_MAX_CURSORS = 256
_NUM_ALTERNATIVES = 16
_PATIENCE = 20  # pauses; later it is idle work like any other's
_LEAST_S = 0.001  # of a budget: less is not worth another look
_REPLY_FIRST_S = 0.002  # the event loop has the answer to send


class AheadOfKeystrokes:
    """A pipeline that has the next answers ready. Lives on the event loop."""

    def __init__(
        self,
        pipeline: Pipeline,
        foresight: Foresight,
        options: WarmupOptions,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        set_alarm: SetAlarm = event_loop_alarm,
    ) -> None:
        self._pipeline = pipeline
        self._foresight = foresight
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._set_alarm = set_alarm
        self._cursors: OrderedDict[Identity, _Cursor] = OrderedDict()

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        """As the pipeline's."""
        self._keystroke(request)
        text: list[str] = []
        reason: FinishReason | None = None
        async with aclosing(self._pipeline.stream(request)) as deltas:
            async for delta in deltas:
                text.append(delta.text)
                reason = delta.finish_reason
                yield delta
        if reason is not None:
            self._delivered(request, "".join(text), reason)

    async def complete(self, request: CompletionRequest) -> Completion:
        """As the pipeline's."""
        self._keystroke(request)
        completion = await self._pipeline.complete(request)
        choice = completion.choices[0]
        self._delivered(request, choice.text, choice.finish_reason)
        return completion

    def cancel(self, request_id: str, tenant: str) -> bool:
        return self._pipeline.cancel(request_id, tenant)

    def receipt(self, request_id: str) -> Receipt | None:
        return self._pipeline.receipt(request_id)

    async def final_receipt(self, request_id: str) -> Receipt | None:
        return await self._pipeline.final_receipt(request_id)

    async def settled(self) -> None:
        """Wait until nothing is computed ahead any more."""
        tasks = [cursor.task for cursor in self._cursors.values() if cursor.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keystroke(self, request: CompletionRequest) -> None:
        if request.priority != "interactive":
            return
        identity = cursor_of(request)
        if identity is None:
            return
        cursor = self._cursor(identity)
        cursor.call_off()
        cursor.pauses.keystroke(self._clock())

    def _delivered(self, request: CompletionRequest, answer: str, reason: FinishReason) -> None:
        document, identity = request.prompt, cursor_of(request)
        if (
            self._options.share == 0.0
            or request.priority != "interactive"
            or not isinstance(document, Document)
            or identity is None
            or request.num_choices > 1  # whose text is in the editor nobody knows
            or request.echo  # the answer begins with the document
            or reason not in ("stop", "length")  # behind a deadline there is other work
        ):
            return
        self._foresight.keep_up(request)
        cursor = self._cursor(identity)
        cursor.call_off()
        cursor.errand = errand = Errand()
        cursor.task = asyncio.create_task(
            self._look_ahead(request, document, answer, reason, errand, cursor.pauses.usual_s)
        )

    async def _look_ahead(
        self,
        request: CompletionRequest,
        document: Document,
        answer: str,
        reason: FinishReason,
        errand: Errand,
        pause_s: float,
    ) -> None:
        await self._sleep(_REPLY_FIRST_S)
        for _ in range(_PATIENCE):
            if not self._foresight.busy:
                break
            await self._sleep(self._options.pause_ms / 1e3)
        budget = _Budget(self._foresight, self._set_alarm, self._options.share * pause_s, errand)
        try:
            await self._foresight.read_ahead(request, errand)
            alternatives = await self._foresight.alternatives(request, _NUM_ALTERNATIVES, errand)
            guesses = next_requests(request, document, answer, alternatives, at_limit=reason == "length")
            await self._foresight.look_ahead(list(guesses), self._options.max_guesses, errand)
        except HalflineError as error:  # whoever asks next is told by the answer
            _log.debug("nothing computed ahead", extra=fields(reason=str(error)))
        finally:
            budget.close()
            errand.call_off()

    def _cursor(self, identity: Identity) -> "_Cursor":
        cursor = self._cursors.pop(identity, None) or _Cursor()
        self._cursors[identity] = cursor
        if len(self._cursors) > _MAX_CURSORS:
            _, forgotten = self._cursors.popitem(last=False)
            forgotten.call_off()
        return cursor


class _Budget:
    """Calls an errand off when the engine has computed for so many seconds. On a machine that has other things to do
    that takes longer.
    """

    def __init__(self, foresight: Foresight, set_alarm: SetAlarm, seconds: float, errand: Errand) -> None:
        self._foresight = foresight
        self._set_alarm = set_alarm
        self._end_s = foresight.compute_s + seconds
        self._errand = errand
        self._alarm = set_alarm(seconds, self._look)

    def close(self) -> None:
        self._alarm.cancel()

    def _look(self) -> None:
        left = self._end_s - self._foresight.compute_s
        if left > _LEAST_S:
            self._alarm = self._set_alarm(left, self._look)
        else:
            self._errand.call_off()


class _Cursor:
    def __init__(self) -> None:
        self.pauses = Pauses()
        self.errand: Errand | None = None
        self.task: asyncio.Task[None] | None = None

    def call_off(self) -> None:
        if self.errand is not None:
            self.errand.call_off()
        if self.task is not None:
            self.task.cancel()
