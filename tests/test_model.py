"""Random programs on one file, every verb of queues and streams, step by step against the model in model.py.

Each step compares what the verb answered, and then all that can be seen in the database: see model_clients.py.
BRANT_MODEL_EXAMPLES says how many programs are tried.
"""

from __future__ import annotations

import json
import os
from dataclasses import astuple
from itertools import islice
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import precondition, rule

import brant
from brant.errors import ClaimLost
from brant.testing import FakeClock
from tests.model_clients import (
    ATTEMPTS,
    LEASES,
    STREAMS,
    TwoClients,
    clients,
    meant,
    no_transaction,
    now_and_then,
    queues,
    shown,
    spans,
)

streams = st.sampled_from(STREAMS)
workers = st.sampled_from(["w1", "w1", "w2"])
consumers = st.sampled_from(["c1", "c2"])
picks = st.integers(0, 15)
maybe_picks = st.none() | picks
maybe_spans = st.none() | spans
limits = st.integers(1, 3)
errors = st.sampled_from(["", "boom", "é"])
values = st.integers(0, 9) | st.sampled_from(["text", 'é "quoted"', None, {"n": [1, True]}])
# Which rows a shell verb may take: one by its id, or those in an open range of ids, or all.
ranges = st.fixed_dictionaries({}, optional={"after": picks, "before": picks})
choices = ranges | st.fixed_dictionaries({"message_id": picks})
Choice = dict[str, int]
VERBS = ("ack", "ack_batch", "retry", "fail")
job_options: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.fixed_dictionaries(
    {},
    optional={
        "delay": spans,
        "run_at": st.sampled_from([FakeClock().now() + offset for offset in (-10, 0, 0.5, 10)]),
        "priority": st.integers(-1, 1),
        "expires": spans,
        "max_attempts": st.integers(0, 2),
    },
)


# Most steps wait for something to work on: without it a program would be a list of vain attempts.


def there_are_jobs(machine: Programs) -> bool:
    return bool(machine.model.live)


def there_are_leases(machine: Programs) -> bool:
    return any(job.leased for job in machine.model.live.values())


def there_are_dead_letters(machine: Programs) -> bool:
    return bool(machine.model.dead)


def there_are_events(machine: Programs) -> bool:
    return bool(machine.model.events)


def a_job_was_claimed(machine: Programs) -> bool:
    return bool(machine.handles)


class Programs(TwoClients):
    # Adding

    @rule(client=clients, name=queues, value=values, options=job_options)
    def enqueue(self, client: int, name: str, value: object, options: dict[str, Any]) -> None:
        added = self.queue(client, name).enqueue(value, tx=self.tx, **options)
        assert added == self.model.enqueue(name, json.dumps(value), **({"max_attempts": ATTEMPTS[name]} | options))
        self.ids.append(added)

    @rule(client=clients, name=queues, key=st.sampled_from("kl"), unique_for=st.sampled_from([None, 0.5, 5, 60]))
    def enqueue_under_a_key(self, client: int, name: str, key: str, unique_for: float | None) -> None:
        added = self.queue(client, name).enqueue(0, tx=self.tx, unique_key=key, unique_for=unique_for)
        assert added == self.model.enqueue(
            name, "0", max_attempts=ATTEMPTS[name], unique_key=key, unique_for=unique_for
        )
        self.ids.append(added)

    @rule(client=clients, name=queues, batch=st.lists(values, max_size=3), options=job_options)
    def enqueue_many(self, client: int, name: str, batch: list[object], options: dict[str, Any]) -> None:
        added = self.queue(client, name).enqueue_many(batch, tx=self.tx, **options)
        given = {"max_attempts": ATTEMPTS[name]} | options
        assert added == [self.model.enqueue(name, json.dumps(value), **given) for value in batch]
        self.ids += added

    @rule(client=clients, name=queues, text=st.sampled_from(["", "text", '{"json": 1}']))
    def write(self, client: int, name: str, text: str) -> None:
        written = self.queue(client, name).write(text, tx=self.tx)
        assert written == self.model.enqueue(name, json.dumps(text), max_attempts=ATTEMPTS[name])
        self.ids.append(written)

    @precondition(now_and_then)
    @rule(client=clients, name=queues)
    def enqueue_what_is_not_json(self, client: int, name: str) -> None:
        with pytest.raises(TypeError):
            self.queue(client, name).enqueue_many([1, object()], tx=self.tx)

    # Working

    @precondition(there_are_jobs)
    @precondition(no_transaction)
    @rule(client=clients, name=queues, worker=workers, limit=st.integers(-1, 3), lease=maybe_spans)
    def claim_batch(self, client: int, name: str, worker: str, limit: int, lease: float | None) -> None:
        jobs = self.queue(client, name).claim_batch(worker, limit, lease)
        self.claimed(jobs, self.model.claim(name, worker, limit, LEASES[name] if lease is None else lease))

    @precondition(there_are_jobs)
    @precondition(no_transaction)
    @rule(client=clients, name=queues, worker=workers)
    def claim_one(self, client: int, name: str, worker: str) -> None:
        job = self.queue(client, name).claim_one(worker)
        self.claimed([] if job is None else [job], self.model.claim(name, worker, 1, LEASES[name]))

    @precondition(a_job_was_claimed)
    @rule(pick=picks, verb=st.sampled_from(VERBS), delay=spans, error=errors)
    def settle_a_claimed_job(self, pick: int, verb: str, delay: float, error: str) -> None:
        self.settle(self.handle(pick), verb, delay, error)

    @precondition(a_job_was_claimed)
    @rule(pick=picks, verb=st.sampled_from(VERBS), span=st.sampled_from([-0.25, 0, 0.25, 0.75, 1]))
    def settle_where_the_lease_ends(self, pick: int, verb: str, span: float) -> None:
        job = self.handle(pick)
        self.go_to(job.claim_expires_at + span)
        self.settle(job, verb, 0, "late?")

    @precondition(a_job_was_claimed)
    @precondition(no_transaction)
    @rule(pick=picks, verb=st.sampled_from(VERBS))
    def settle_what_a_namesake_claimed_again(self, pick: int, verb: str) -> None:
        job = self.handle(pick)
        self.go_to(job.claim_expires_at + 1)
        self.claim_batch(0, job.queue.name, job.worker_id, 3, None)
        self.settle(job, verb, 0, "too late")

    @precondition(a_job_was_claimed)
    @precondition(no_transaction)
    @rule(pick=picks, extend=maybe_spans)
    def renew_a_claimed_job(self, pick: int, extend: float | None) -> None:
        job = self.handle(pick)
        lease = LEASES[job.queue.name] if extend is None else extend
        assert job.heartbeat(extend) == self.model.heartbeat(job.id, job.worker_id, lease, job.attempts)

    @precondition(a_job_was_claimed)
    @precondition(no_transaction)
    @rule(pick=picks)
    def finish_a_claimed_job_with_its_effect(self, pick: int) -> None:
        job = self.handle(pick)
        stream = job.queue.db.stream("s")
        try:
            with job.transaction() as tx:
                stream.publish("effect", tx=tx)
            done = True
        except ClaimLost:
            done = False
        assert done == self.model.ack(job.id, job.worker_id, job.attempts)
        if done:
            self.model.publish("s", None, '"effect"')
        elif self.is_server:
            self.model.last_offset += 1  # taken by what was undone

    def settle(self, job: brant.Job, verb: str, delay: float, error: str) -> None:
        claim = (job.id, job.worker_id)
        if verb == "ack":
            assert job.ack(tx=self.tx) == self.model.ack(*claim, job.attempts)
        elif verb == "ack_batch":
            assert job.queue.ack_batch([job.id, job.id], job.worker_id, tx=self.tx) == self.model.ack(*claim)
        elif verb == "retry":
            assert job.retry(delay, error, tx=self.tx) == self.model.retry(*claim, delay, error, job.attempts)
        else:
            assert job.fail(error, tx=self.tx) == self.model.fail(*claim, error, job.attempts)

    @precondition(there_are_leases)
    @rule(
        client=clients, name=queues, pick=picks, verb=st.sampled_from(VERBS), worker=workers, delay=spans, error=errors
    )
    def settle_by_id(self, client: int, name: str, pick: int, verb: str, worker: str, delay: float, error: str) -> None:
        claim = (self.picked(pick), worker)
        queue = self.queue(client, name)
        if verb == "ack":
            assert queue.ack(*claim, tx=self.tx) == self.model.ack(*claim)
        elif verb == "ack_batch":
            assert queue.ack_batch([claim[0], 1], worker, tx=self.tx) == self.model.ack(*claim)
        elif verb == "retry":
            assert queue.retry(*claim, delay, error, tx=self.tx) == self.model.retry(*claim, delay, error)
        else:
            assert queue.fail(*claim, error, tx=self.tx) == self.model.fail(*claim, error)

    @precondition(no_transaction)
    @precondition(there_are_leases)
    @rule(client=clients, name=queues, pick=picks, worker=workers, extend=spans)
    def heartbeat(self, client: int, name: str, pick: int, worker: str, extend: float) -> None:
        claim = (self.picked(pick), worker, extend)
        assert self.queue(client, name).heartbeat(*claim) == self.model.heartbeat(*claim)

    # The shell

    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, choice=choices)
    def read(self, client: int, name: str, choice: Choice) -> None:
        chosen = self.chosen(choice)
        message = self.queue(client, name).read(tx=self.tx, **chosen)
        assert shown(message) == meant(self.model.read(name, 1, **chosen))

    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, limit=limits, choice=ranges)
    def read_many(self, client: int, name: str, limit: int, choice: Choice) -> None:
        chosen = self.chosen(choice)
        messages = self.queue(client, name).read_many(limit, tx=self.tx, **chosen)
        assert shown(*messages) == meant(self.model.read(name, limit, **chosen))

    @precondition(no_transaction)
    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, batch_size=limits, wanted=limits)
    def stop_reading_under_a_lease(self, client: int, name: str, batch_size: int, wanted: int) -> None:
        wanted = min(wanted, batch_size)
        reading = self.queue(client, name).read_generator(at_least_once=True, batch_size=batch_size)
        messages = list(islice(reading, wanted))
        reading.close()  # type: ignore[attr-defined]
        # Asking for the next message is what tells that one was consumed.
        consumed = wanted - 1 if len(messages) == wanted else len(messages)
        assert shown(*messages) == meant(self.model.read_under_lease(name, batch_size, consumed)[:wanted])

    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, choice=choices)
    def peek(self, client: int, name: str, choice: Choice) -> None:
        chosen = self.chosen(choice)
        assert shown(self.queue(client, name).peek(**chosen)) == meant(self.committed.due(name, **chosen)[:1])

    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, limit=limits, choice=ranges)
    def peek_many(self, client: int, name: str, limit: int, choice: Choice) -> None:
        chosen = self.chosen(choice)
        messages = self.queue(client, name).peek_many(limit, **chosen)
        assert shown(*messages) == meant(self.committed.due(name, **chosen)[:limit])

    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, choice=choices)
    def move(self, client: int, name: str, choice: Choice) -> None:
        target, chosen = "b" if name == "a" else "a", self.chosen(choice)
        message = self.queue(client, name).move(target, tx=self.tx, **chosen)
        assert shown(message) == meant(self.model.move(name, target, 1, **chosen))

    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, limit=st.none() | limits, choice=ranges)
    def move_many(self, client: int, name: str, limit: int | None, choice: Choice) -> None:
        target, chosen = "b" if name == "a" else "a", self.chosen(choice)
        messages = self.queue(client, name).move_many(target, limit, tx=self.tx, **chosen)
        assert shown(*messages) == meant(self.model.move(name, target, 999 if limit is None else limit, **chosen))

    def chosen(self, choice: Choice) -> dict[str, Any]:
        return {bound: self.picked(pick) for bound, pick in choice.items()}

    # Removing and bringing back

    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, pick=picks, verb=st.sampled_from(["cancel", "delete by id", "delete"]))
    def remove(self, client: int, name: str, pick: int, verb: str) -> None:
        queue, job_id = self.queue(client, name), self.picked(pick)
        if verb == "cancel":
            assert queue.cancel(job_id, tx=self.tx) == self.model.cancel(job_id)
        elif verb == "delete by id":
            assert queue.delete(message_id=job_id, tx=self.tx) == self.model.delete_message(name, job_id)
        else:
            assert queue.delete(tx=self.tx) == self.model.delete_queue(name)

    @precondition(there_are_jobs)
    @precondition(now_and_then)
    @rule(client=clients, name=queues)
    def sweep_expired(self, client: int, name: str) -> None:
        assert self.queue(client, name).sweep_expired(tx=self.tx) == self.model.sweep_expired(name)

    @precondition(there_are_dead_letters)
    @rule(client=clients, name=queues, pick=maybe_picks)
    def requeue_dead(self, client: int, name: str, pick: int | None) -> None:
        job_id = None if pick is None else self.picked(pick)
        assert self.queue(client, name).requeue_dead(job_id, tx=self.tx) == self.model.requeue(name, job_id)

    @precondition(there_are_dead_letters)
    @precondition(now_and_then)
    @rule(client=clients, name=queues, older_than=maybe_spans)
    def purge_dead(self, client: int, name: str, older_than: float | None) -> None:
        assert self.queue(client, name).purge_dead(older_than, tx=self.tx) == self.model.purge(name, older_than)

    @precondition(now_and_then)
    @rule(client=clients, name=queues, pause=st.sampled_from([False, False, True]))
    def pause_or_resume(self, client: int, name: str, pause: bool) -> None:
        queue = self.queue(client, name)
        if pause:
            assert queue.pause(tx=self.tx) == self.model.pause(name)
        else:
            assert queue.resume(tx=self.tx) == self.model.resume(name)

    # Streams

    @rule(client=clients, topic=streams, value=values, key=st.sampled_from([None, "", "é"]))
    def publish(self, client: int, topic: str, value: object, key: str | None) -> None:
        offset = self.stream(client, topic).publish(value, key, tx=self.tx)
        assert offset == self.model.publish(topic, key, json.dumps(value))

    @rule(client=clients, topic=streams, events=st.lists(st.tuples(values, st.sampled_from([None, "é"])), max_size=3))
    def publish_many(self, client: int, topic: str, events: list[tuple[object, str | None]]) -> None:
        payloads, keys = [value for value, _ in events], [key for _, key in events]
        offsets = self.stream(client, topic).publish_many(payloads, keys, tx=self.tx)
        assert offsets == [self.model.publish(topic, key, json.dumps(value)) for value, key in events]

    @precondition(there_are_events)
    @precondition(now_and_then)
    @rule(client=clients, topic=streams, after=st.integers(0, 9), limit=st.integers(-1, 3))
    def read_events(self, client: int, topic: str, after: int, limit: int) -> None:
        events = self.stream(client, topic).read(after, limit)
        following = self.committed.topic(topic, after)
        expected = following if limit < 0 else following[:limit]
        assert [tuple(event) for event in events] == [astuple(event) for event in expected]

    @rule(client=clients, topic=streams, consumer=consumers, offset=st.sampled_from([None, 0, 1, 2, 4, 8]))
    def save_offset_or_forget(self, client: int, topic: str, consumer: str, offset: int | None) -> None:
        stream = self.stream(client, topic)
        if offset is None:
            assert stream.forget_consumer(consumer, tx=self.tx) == self.model.forget_consumer(consumer, topic)
        else:
            saved = stream.save_offset(consumer, offset, tx=self.tx)
            assert saved == self.model.save_offset(consumer, topic, offset)

    @precondition(there_are_events)
    @precondition(now_and_then)
    @rule(
        client=clients,
        topic=streams,
        up_to=st.none() | st.integers(0, 9),
        older_than=maybe_spans,
        keep=st.none() | st.integers(0, 3),
        past=st.booleans(),
    )
    def prune(
        self, client: int, topic: str, up_to: int | None, older_than: float | None, keep: int | None, past: bool
    ) -> None:
        if up_to is None and older_than is None and keep is None:
            keep = 1
        pruned = self.stream(client, topic).prune(
            up_to=up_to, older_than_s=older_than, keep=keep, past_consumers=past, tx=self.tx
        )
        assert pruned == self.model.prune(topic, up_to, older_than, keep, past)


# A failing program is made shorter for some minutes; Hypothesis itself ends that after five.
TestPrograms = pytest.mark.timeout(3600)(Programs.TestCase)
pytest.mark.guarantee("G1", "G4", "G5", "G6", "G11", "G12", "G16", "G18", "G20")(TestPrograms)
TestPrograms.settings = settings(
    max_examples=int(os.environ.get("BRANT_MODEL_EXAMPLES", "60")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
