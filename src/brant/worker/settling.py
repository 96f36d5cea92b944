"""Settling jobs by how their functions ended: all that ended meanwhile in one commit, each by its own claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brant.arguments import encode
from brant.errors import BrantError, ClaimLost, DatabaseClosed, DatabaseReplaced, InvalidValue, TransactionError
from brant.failpoint import failpoint
from brant.outcomes import Cancel, Dead, Outcome, Retry, Snooze
from brant.storage.session import Session
from brant.transaction import Transaction
from brant.worker.claiming import Claim
from brant.worker.execution import Execution, GiveBack, StillRunning, outcome_of_error

if TYPE_CHECKING:
    from brant.database import Database

_DELAY_WITHOUT_TASK_S = 60.0
_BAD_OUTCOME = (InvalidValue, TypeError, ValueError, ArithmeticError)


class _Spoilt(Exception):
    """The work of one has ended the transaction of all."""


class Settlement:
    """What becomes of one job."""

    def __init__(self, execution: Execution, outcome: object) -> None:
        self.execution = execution
        self.is_mended = False
        self._outcome = outcome
        self._result: str | None = None
        self._work_error: BaseException | None = None
        self._event = ""
        self._error: str | None = None
        self._trouble: str | None = None

    @property
    def step(self) -> str | None:
        """What is booked, by the names of the failpoints; None for what has no name there."""
        if self.execution.has_acked:
            return None
        if not isinstance(self._outcome, Outcome):
            return "ack"
        if isinstance(self._outcome, Retry):
            return "dead" if self._is_last_attempt else "retry"
        return "dead" if isinstance(self._outcome, Dead) else None

    @property
    def went_well(self) -> bool:
        return self._event == "success"

    def prepare(self) -> bool:
        """What can be done before the write lock is taken; False when that was all."""
        if isinstance(self._outcome, StillRunning):
            self.execution.tell("lost", "cut off while it ran: the lease runs out by itself")
            return False
        spec = self.execution.spec
        if not isinstance(self._outcome, Outcome) and spec is not None and spec.store_result:
            try:
                self._result = encode(self._outcome)
            except TypeError as error:
                # The work is done: that its answer can't be stored is no reason to do it again.
                self._trouble = f"the result was not stored: {error}"
            except _BAD_OUTCOME as error:
                self.mend(error)
        if self.execution.has_acked and self._result is None:
            self._note_committed()
            self.conclude()
            return False
        return True

    def book(self, tx: Transaction, session: Session) -> None:
        """Write it; what is then told is told once this is committed."""
        if self.execution.has_acked:
            self._note_committed()
            self._save(session)
        elif self._work_error is not None:
            self._book_error(tx, session, self._work_error)
        elif not isinstance(self._outcome, Outcome):
            if self.execution.has_work:
                self._book_work(tx, session)
            else:
                self._book_value(session)
        else:
            self._book_outcome(tx)

    def _book_outcome(self, tx: Transaction) -> None:
        job = self.execution.job
        match self._outcome:
            case GiveBack() as reason:
                self._is("release" if job.release(tx=tx) else "lost", str(reason))
            case Retry(after_s=after, reason=text):
                held = job.retry(self._delay(tx.session()) if after is None else after, text, tx=tx)
                self._is(("dead" if self._is_last_attempt else "retry") if held else "lost", text)
            case Snooze(for_s=pause):
                self._is("snooze" if job.release(delay_s=pause, tx=tx) else "lost")
            case Dead(reason=text):
                self._is("dead" if job.fail(text, tx=tx) else "lost", text)
            case Cancel(reason=text):
                self._is("cancel" if job.ack(tx=tx) else "lost", text)

    def _book_value(self, session: Session) -> None:
        job = self.execution.job
        # A claim that was lost leaves no result either.
        if session.ack(job.id, job.worker_id, job.attempts):
            self._save(session)
            self._is("success")
        else:
            self._is("lost", f"{job!r} is no longer claimed by {job.worker_id!r}")

    def _book_work(self, tx: Transaction, session: Session) -> None:
        job = self.execution.job
        try:
            with session.savepoint():
                self.execution.do_work(tx)
                tx.session()  # raises where the work has ended the transaction: the ack would commit by itself
                if job._settled_in is not tx and not session.ack(job.id, job.worker_id, job.attempts):
                    raise ClaimLost(f"{job!r} is no longer claimed by {job.worker_id!r}")
                self._save(session)
        except ClaimLost as error:
            self._is("lost", str(error))
        except BaseException as error:
            self._work_error, self._outcome, self._result = error, outcome_of_error(error), None
            job._settled_in, job._settled_as = None, ("success", None)
            try:
                tx.session()
            except TransactionError:
                raise _Spoilt from error
            self._book_error(tx, session, error)
        else:
            self._is(*self.execution.settled_as)

    def _book_error(self, tx: Transaction, session: Session, error: BaseException) -> None:
        try:
            with session.savepoint():
                self.execution.answer_error(tx, error)
                if self.execution.job._settled_in is tx:
                    self._is(*self.execution.settled_as)
                else:
                    self._book_outcome(tx)
                if self._event == "lost":
                    raise ClaimLost
        except ClaimLost:
            pass  # what the task wrote about its job is undone: that is somebody else's

    def _note_committed(self) -> None:
        """The task has acked its job in its own transaction: whatever came then can't undo that."""
        if isinstance(self._outcome, Outcome):
            text = self._outcome or type(self._outcome).__name__
            self._trouble = f"after its transaction had committed: {text}"
        self._is(*self.execution.settled_as)

    def _save(self, session: Session) -> None:
        spec = self.execution.spec
        if self._result is not None and spec is not None:
            session.save_result(self.execution.job.id, self._result, spec.result_ttl_s)

    def conclude(self) -> None:
        """Once it is committed."""
        try:
            if (step := self.step) is not None:
                failpoint(f"{step}.after")
        except Exception as error:
            self.fail(error)
            return
        if self._trouble is not None:
            self.execution.tell("trouble", self._trouble)
        self.execution.tell(self._event, self._error)

    def mend(self, error: Exception) -> None:
        """The outcome itself is bad, such as a delay that is no number."""
        self.is_mended = True
        kind, self._result = type(self._outcome).__name__, None
        self._outcome = Retry(_DELAY_WITHOUT_TASK_S, f"the task ended with a bad {kind}: {error}")

    def fail(self, error: Exception) -> None:
        """An error of the worker's own: the job waits for its lease to end."""
        self.execution.tell("trouble", f"an execution failed: {error!r}")

    def is_hopeless(self, error: BrantError) -> bool:
        gone = isinstance(error, (DatabaseClosed, DatabaseReplaced))
        return gone or self.execution.is_cut_off or self.execution.lease_left_s < 0

    def _is(self, event: str, error: str | None = None) -> None:
        self._event, self._error = event, error

    @property
    def _is_last_attempt(self) -> bool:
        return self.execution.job.attempts >= self.execution.job.max_attempts

    def _delay(self, session: Session) -> float:
        spec = self.execution.spec
        return _DELAY_WITHOUT_TASK_S if spec is None else spec.delay_after(self._failures(session))

    def _failures(self, session: Session) -> int:
        """With this one. Attempts count what was snoozed or given back too: that is no reason to wait for longer."""
        job = self.execution.job
        return 1 if job.attempts == 1 else min(job.attempts, session.times_failed(job.id) + 1)


class Settler:
    """Settles groups. One that fails does not spoil the others: they are settled without it."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def settle(self, group: list[Settlement], claim: Claim | None = None) -> list[Settlement]:
        """Gives those that could not be settled yet, which are worth another try in a while.

        `claim` claims for the slots that get free, in the same commit; it is left out when anything goes wrong.
        """
        again: list[Settlement] = []
        group = [each for each in group if self._is_ready(each)]
        while group:
            at_fault, error = self._commit(group, claim)
            if error is None:
                break
            if isinstance(error, _Spoilt):
                continue  # with the others as they were, and with its error in the place of its work
            if claim is not None and (claim.was_tried or at_fault is not None):
                claim = None
                continue
            # All of them where it is the database.
            blamed = group if at_fault is None else [at_fault]
            group = [each for each in group if each not in blamed]
            for each in blamed:
                # Once only, and only where it is one of them: else this would go round in circles.
                if isinstance(error, _BAD_OUTCOME) and at_fault is not None and not each.is_mended:
                    each.mend(error)
                    group.append(each)
                elif isinstance(error, BrantError):
                    again += self._postponed(each, error)
                else:
                    each.fail(error)
        return again

    def _is_ready(self, settlement: Settlement) -> bool:
        try:
            if not settlement.prepare():
                return False
            if (step := settlement.step) is not None:
                failpoint(f"{step}.before")
        except Exception as error:
            settlement.fail(error)
            return False
        return True

    def _commit(self, group: list[Settlement], claim: Claim | None) -> tuple[Settlement | None, Exception | None]:
        """Gives what went wrong, and with which of them."""
        current = None
        try:
            with self._db.transaction() as tx:
                session = tx.session()
                for current in group:
                    current.book(tx, session)
                current = None
                # Only with what went well: a job that is tried again must not lose an attempt to a crash here.
                if claim is not None and all(each.went_well for each in group):
                    claim.make(session)
        except Exception as error:
            if claim is not None:
                claim.undo()
            return current, error
        for each in group:
            each.conclude()
        return None, None

    def _postponed(self, settlement: Settlement, error: BrantError) -> list[Settlement]:
        if settlement.is_hopeless(error):
            settlement.execution.tell("lost", f"the job could not be settled: {error}")
            return []
        settlement.execution.tell("trouble", f"the job could not be settled yet: {error}")
        return [settlement]
