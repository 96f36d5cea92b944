"""Secrets: from a text, the environment or a callable; rotated, expired, never empty and never shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import brant
from brant.inbox import providers
from brant.inbox.secrets import Secret, Secrets, SecretUnavailable
from brant.inbox.verification import INVALID, VERIFIED, Verification, verify
from tests.inbox.senders import NOW, SENDERS

GITHUB = SENDERS["github"]


def _judged(secrets: Secrets, now: float = NOW) -> Verification:
    return verify(GITHUB.provider(), GITHUB.request(), secrets, now)


def test_a_secret_is_a_text() -> None:
    assert Secrets("s").current(0) == (b"s",)
    assert Secrets(b"s").current(0) == (b"s",)


def test_a_secret_comes_from_the_environment_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "old")
    secrets = Secrets("env:HOOK_SECRET")
    monkeypatch.setenv("HOOK_SECRET", "new")

    assert secrets.current(0) == (b"new",)


def test_a_secret_comes_from_a_callable_as_it_is_now() -> None:
    kept = ["old"]
    secrets = Secrets(lambda: kept)
    kept[:] = ["new", "newer"]

    assert secrets.current(0) == (b"new", b"newer")


def test_any_of_several_secrets_may_have_signed() -> None:
    right = GITHUB.secret()

    assert _judged(Secrets(["another", right])).state == VERIFIED
    assert _judged(Secrets([right, "another"])).state == VERIFIED
    assert _judged(Secrets(["another"])).state == INVALID


@pytest.mark.parametrize("not_after", [NOW, datetime.fromtimestamp(NOW, UTC)])
def test_a_secret_counts_until_it_expires(not_after: float | datetime) -> None:
    secrets = Secrets([Secret(GITHUB.secret(), not_after=not_after), "the new one"])

    assert _judged(secrets, NOW).state == VERIFIED
    assert _judged(secrets, NOW + 1).state == INVALID


def test_when_all_have_expired_the_fault_is_on_this_side() -> None:
    verdict = _judged(Secrets([Secret(GITHUB.secret(), not_after=NOW)]), NOW + 1)

    assert verdict == Verification(INVALID, "no secret counts at this time", temporary=True)


@pytest.mark.parametrize("empty", ["", b"", "  ", [], (), [""], ["good", ""], lambda: "", lambda: None, list])
def test_an_empty_secret_is_refused_at_once(empty: object) -> None:
    with pytest.raises(brant.InvalidValue, match=r"empty|no secret"):
        Secrets(empty)  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [None, 5, [None], [5], {"a": 1}.items()])
def test_what_can_not_be_a_secret_is_refused_at_once(odd: object) -> None:
    with pytest.raises(brant.InvalidValue, match="must be a text"):
        Secrets(odd)  # type: ignore[arg-type]


def test_a_variable_that_is_not_set_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)

    with pytest.raises(brant.InvalidValue, match="the environment variable HOOK_SECRET is not set"):
        Secrets("env:HOOK_SECRET")


def test_a_variable_that_is_empty_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "")

    with pytest.raises(brant.InvalidValue, match="empty"):
        Secrets("env:HOOK_SECRET")


def test_a_variable_that_vanishes_later_is_a_fault_on_this_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s")
    secrets = Secrets("env:HOOK_SECRET")
    monkeypatch.delenv("HOOK_SECRET")

    verdict = _judged(secrets)

    assert verdict == Verification(INVALID, "the environment variable HOOK_SECRET is not set", temporary=True)


def test_a_callable_that_fails_later_is_a_fault_on_this_side_and_tells_nothing() -> None:
    answers = ["s"]

    def vault() -> str:
        if not answers:
            raise ConnectionError("could not get hunter2")
        return answers.pop()

    secrets = Secrets(vault)

    with pytest.raises(SecretUnavailable) as caught:
        secrets.current(NOW)
    assert caught.value.__suppress_context__
    assert _judged(secrets) == Verification(
        INVALID, "the callable for a secret failed with ConnectionError", temporary=True
    )


def test_too_many_secrets_are_refused_at_once() -> None:
    with pytest.raises(brant.InvalidValue, match="at most 16"):
        Secrets(["s"] * 17)


def test_a_callable_that_gives_too_many_is_refused_at_once() -> None:
    with pytest.raises(brant.InvalidValue, match="17 secrets"):
        Secrets(lambda: [str(number) for number in range(17)])


def test_a_callable_that_gives_too_many_later_is_a_fault_on_this_side_and_none_is_left_out() -> None:
    kept = ["another"]
    secrets = Secrets(lambda: kept)
    kept[:] = [*(f"other {number}" for number in range(16)), GITHUB.secret().decode()]

    assert _judged(secrets) == Verification(
        INVALID, "there are 17 secrets; at most 16 can be tried on each request", temporary=True
    )


def test_every_webhook_of_asana_has_a_secret_of_its_own(db: brant.Database) -> None:
    known: list[str] = []

    def on_secret(offered: str) -> bool:
        known.append(offered)
        return True

    with brant.Inbox(db) as inbox:
        endpoint = inbox.endpoint("asana", provider="asana", options={"on_secret": on_secret}, secrets=lambda: known)
        for number in range(40):
            assert endpoint.receive(b"", {"X-Hook-Secret": f"secret {number}"}).status_code == 200
        for number in (0, 15, 16, 39):
            body = b'{"events":[{"action":"changed","n":%d}]}' % number
            request = providers.provider("asana").sign(body, f"secret {number}", NOW)
            assert endpoint.receive(request.body, request.headers.pairs).accepted


@pytest.mark.guarantee("G35")
def test_no_secret_is_ever_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hunter2")
    secrets = Secrets(["hunter2", "env:HOOK_SECRET", Secret("hunter2"), lambda: "hunter2"])

    for shown in (repr(secrets), str(secrets), f"{secrets}", repr(Secret("hunter2")), repr([Secret("hunter2")])):
        assert "hunter2" not in shown


def test_an_option_that_is_a_secret_is_not_shown_either() -> None:
    provider = providers.provider("meta", verify_token="hunter2")

    assert "hunter2" not in repr(provider) + repr(provider.settings) + repr(vars(provider))


def test_an_option_that_is_a_secret_can_not_be_empty() -> None:
    with pytest.raises(brant.InvalidValue, match="verify_token: a secret is empty"):
        providers.provider("meta", verify_token="")


def test_a_secret_may_come_later_where_it_is_agreed_in_the_handshake() -> None:
    kept: list[str] = []
    secrets = Secrets(lambda: kept, may_be_empty=True)

    assert secrets.current(0) == ()
    kept.append("agreed")
    assert secrets.current(0) == (b"agreed",)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("discord", b"not hex"),
        ("discord", b"00ff"),
        ("sendgrid", b"not a key"),
        ("sendgrid", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"),
        ("adyen", b"not hex"),
        ("basic-auth", b"no colon"),
        ("postmark", b":word"),
        ("standard-webhooks", b"whsec_!"),
        ("standard-webhooks", b"whpk_AAAA"),
    ],
)
def test_a_secret_of_another_kind_is_refused_with_what_it_should_be(name: str, secret: bytes) -> None:
    with pytest.raises(brant.InvalidValue) as caught:
        SENDERS[name].provider().check_secret(secret)

    assert secret.decode() not in str(caught.value)


@pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS)
def test_a_right_secret_passes_the_check(sender: object) -> None:
    one = SENDERS[sender.name]  # type: ignore[attr-defined]

    one.provider().check_secret(one.secret())
