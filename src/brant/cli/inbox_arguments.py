"""The arguments of what operates on an inbox, and where each action is."""

from __future__ import annotations

from brant.cli.numbers import count, duration, job_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

_OUTCOMES = ("handled", "failed", "dead", "ignored")
_STATUSES = ("received", "processing", *_OUTCOMES)


def _endpoints(parser: ArgumentParser) -> None:
    _json_lines(parser)


def _events(parser: ArgumentParser) -> None:
    parser.add_argument("--status", choices=_STATUSES, metavar="S", help=f"only those that are {_either(_STATUSES)}")
    _choosing(parser)
    _paging(parser)
    parser.add_argument("--body", action="store_true", help="with their bodies")


def _deliveries(parser: ArgumentParser) -> None:
    parser.add_argument("--event", metavar="ID", type=job_id, help="only those of this event")
    parser.add_argument("--endpoint", metavar="NAME", help="only those of this endpoint")
    verified = parser.add_mutually_exclusive_group()
    verified.add_argument("--verified", action="store_true", help="only those whose signature is valid")
    verified.add_argument("--unverified", action="store_true", help="only those that are not known to be valid")
    parser.add_argument("--orphaned", action="store_true", help="only those without an event: they were refused")
    parser.add_argument("--since", metavar="T", help="only those that came then or later")
    _paging(parser)
    parser.add_argument("--body", action="store_true", help="with their bodies")


def _attempts(parser: ArgumentParser) -> None:
    parser.add_argument("--event", metavar="ID", type=job_id, help="only those of this event")
    parser.add_argument("--outcome", choices=_OUTCOMES, metavar="O", help=f"only those that ended {_either(_OUTCOMES)}")
    parser.add_argument("--since", metavar="T", help="only those of then or later")
    _paging(parser)


def _show(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="EVENT", nargs="?", type=job_id, help="the event's id")
    parser.add_argument("--delivery", metavar="ID", type=job_id, help="a delivery instead")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--raw", action="store_true", help="only the body, byte by byte")
    form.add_argument("--json", action="store_true", help="a JSON object")


def _stats(parser: ArgumentParser) -> None:
    parser.add_argument("--endpoint", metavar="NAME", help="only this endpoint")
    parser.add_argument("--rejects", action="store_true", help="what was refused instead: by endpoint, hour and reason")
    parser.add_argument("--since", metavar="T", help="with --rejects: of then or later")
    parser.add_argument("--limit", metavar="N", type=count, default=100, help="with --rejects: at most N (100)")
    _json_lines(parser)


def _audits(parser: ArgumentParser) -> None:
    parser.add_argument("--pruned", action="store_true", help="what retention deleted instead")
    parser.add_argument("--before", metavar="ID", type=job_id, help="the next page: only those with a smaller id")
    parser.add_argument("--limit", metavar="N", type=count, default=100, help="at most N (100), up to 1000")
    _json_lines(parser)


def _opening(parser: ArgumentParser) -> None:
    parser.add_argument("endpoint", metavar="ENDPOINT", help="the endpoint's name")
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _acting(*statuses: str) -> Callable[[ArgumentParser], None]:
    def add(parser: ArgumentParser) -> None:
        parser.add_argument("id", metavar="EVENT", nargs="?", type=job_id, help="the event's id")
        parser.add_argument(
            "--status", choices=statuses, metavar="S", help=f"instead: all that are {_either(statuses)}, oldest first"
        )
        _choosing(parser)
        parser.add_argument("--limit", metavar="N", type=count, help="at most N")
        parser.add_argument("--dry-run", action="store_true", help="only count them")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--json", action="store_true", help="a JSON object")

    return add


def _replay_delivery(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="DELIVERY", type=job_id, help="the delivery's id")
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _erase(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="EVENT", type=job_id, help="the event's id")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _prune(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--status",
        choices=_OUTCOMES,
        metavar="S",
        action="append",
        default=[],
        help=f"events that are {_either(_OUTCOMES)}; can be repeated",
    )
    parser.add_argument("--orphans", action="store_true", help="deliveries without an event")
    parser.add_argument(
        "--older-than", metavar="S", type=duration, required=True, help="seconds since the event came to rest"
    )
    parser.add_argument("--content", action="store_true", help="erase body, headers and query, and keep the events")
    parser.add_argument("--endpoint", metavar="NAME", help="only of this endpoint")
    parser.add_argument("--dry-run", action="store_true", help="only count them")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _sign(parser: ArgumentParser) -> None:
    parser.add_argument("provider", metavar="PROVIDER", help="github, stripe, standard-webhooks, ...")
    parser.add_argument("payload", metavar="BODY", nargs="?", help="left out or -: standard input")
    parser.add_argument(
        "--secret-env", metavar="NAME", required=True, help="the environment variable that holds the secret"
    )
    parser.add_argument(
        "--url", metavar="URL", default="http://127.0.0.1:8000/", help="where it goes (http://127.0.0.1:8000/)"
    )
    parser.add_argument("--id", metavar="ID", help="the event's id, where the provider sends it in a header")
    parser.add_argument("--type", metavar="TYPE", help="the event's type, where the provider sends it in a header")
    parser.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], help="an option of the provider; can be repeated"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--raw", action="store_true", help="the bytes of the request, for nc")
    form.add_argument("--json", action="store_true", help="a JSON object")


def _choosing(parser: ArgumentParser) -> None:
    parser.add_argument("--endpoint", metavar="NAME", help="only those of this endpoint")
    parser.add_argument("--type", metavar="TYPE", help="only those of this type")
    parser.add_argument("--since", metavar="T", help="only those received then or later: 2026-01-31, Unix time, ...")
    parser.add_argument("--until", metavar="T", help="only those received before that")


def _paging(parser: ArgumentParser) -> None:
    parser.add_argument("--before", metavar="ID", type=job_id, help="the next page: only those with a smaller id")
    parser.add_argument("--limit", metavar="N", type=count, default=100, help="at most N (100), up to 1000")
    _json_lines(parser)


def _json_lines(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


_AUDITS = """What operators did: replays, requeues, ignored events, pauses; with --pruned, what retention deleted. \
Each has the time, the number of events, and what was asked for."""
_PAUSE = """Answer 503 for the endpoint from now on, in all processes, so that senders try again later. What was \
received before is handled as ever."""
_RESUME = """Receive again for an endpoint that was paused."""
_REPLAY = """Run events again, whatever became of them: one, or all of a status. The effects of their handlers happen \
again."""
_REQUEUE = """Run events that were not handled: one, or all of a status. They are due at once, with all attempts."""
_IGNORE = """Let events not be run: one, or all of a status. They stay, and can be replayed."""
_DELIVERY = """Run the event of a delivery again, with the content of that delivery."""
_ERASE = """Erase body, headers and query of one event, as a person may ask for. Its identity and history stay; it \
can't be run again. The bytes leave the file with brant --vacuum --compact."""
_PRUNE = """Delete events that came to rest long ago, with their deliveries and attempts, or only their content. Their \
identities stay, so that a late redelivery is still a duplicate. What waits or runs is never deleted."""
_SIGN = """Print a request that an endpoint of the provider accepts, as a curl command. The secret comes from an \
environment variable, so that it is in no history; where the provider sends the secret itself (bearer, basic, tokens), \
the request holds it. For asymmetric signatures it is the private key."""

_VIEWS, _OPERATIONS = "inbox_views", "inbox_operations"
OPERATING = {
    "endpoints": (_VIEWS, "what the database knows of endpoints", "", _endpoints),
    "events": (_VIEWS, "the events, newest first; exit code 2 when there are none", "", _events),
    "deliveries": (_VIEWS, "every receipt, newest first; exit code 2 when there are none", "", _deliveries),
    "attempts": (_VIEWS, "every run of a handler, newest first; exit code 2 when there are none", "", _attempts),
    "show": (_VIEWS, "all about one event or delivery", "", _show),
    "stats": (_VIEWS, "events by endpoint and status, and how far behind; or what was refused", "", _stats),
    "audits": (_VIEWS, "who did what to events, newest first; exit code 2 when nobody did", _AUDITS, _audits),
    "pause": (_OPERATIONS, "receive nothing for an endpoint", _PAUSE, _opening),
    "resume": (_OPERATIONS, "receive again", _RESUME, _opening),
    "replay": (_OPERATIONS, "run events again", _REPLAY, _acting(*_OUTCOMES)),
    "requeue": (_OPERATIONS, "run events that were not handled", _REQUEUE, _acting("failed", "dead", "ignored")),
    "replay-delivery": (_OPERATIONS, "run an event with the content of a delivery", _DELIVERY, _replay_delivery),
    "ignore": (_OPERATIONS, "let events not be run", _IGNORE, _acting("received", "failed", "dead")),
    "erase": (_OPERATIONS, "erase what an event holds", _ERASE, _erase),
    "prune": (_OPERATIONS, "delete what is old", _PRUNE, _prune),
    "sign": ("inbox_signing", "make a signed test request", _SIGN, _sign),
}
