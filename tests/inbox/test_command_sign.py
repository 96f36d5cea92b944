"""brant inbox sign: what it prints is accepted by an endpoint of the provider."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from brant.inbox import Request, providers
from tests.inbox.commands import assert_refused, inbox_command
from tests.inbox.senders import NOW, SENDERS, TOPIC, URL

OPTIONS = {"aws-sns": ("topic_arn", TOPIC), "paypal": ("webhook_id", "WH-1")}
# Their certificates are fetched, and those of the tests are of another time.
WITHOUT_CERTIFICATE = sorted(set(SENDERS) - set(OPTIONS))


def signed_by_command(folder: Path, name: str, *words: str) -> Request:
    sender = SENDERS[name]
    ended = inbox_command(
        folder, "sign", name, "--secret-env", "KEY", "--url", URL, "--json", *words,
        stdin=sender.body, KEY=sender.signing().decode(),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    body = told["body"].encode() if "body" in told else base64.b64decode(told["body_base64"])
    return Request.of(body, [(key, value) for key, value in told["headers"]], method=told["method"], path="/hooks")


@pytest.mark.parametrize("name", WITHOUT_CERTIFICATE)
def test_a_signed_request_is_valid(tmp_path: Path, name: str) -> None:
    request = signed_by_command(tmp_path, name)
    now = NOW if name == "linear" else time.time()  # Linear's time is part of the body that was given
    assert SENDERS[name].provider().verify(request, SENDERS[name].secrets(), now) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_options_of_the_provider_are_given_by_name(tmp_path: Path, name: str) -> None:
    option = "=".join(OPTIONS[name])
    assert signed_by_command(tmp_path, name, "--option", option).body
    assert_refused(
        inbox_command(tmp_path, "sign", name, "{}", "--secret-env", "KEY", KEY="k"), f"the option {OPTIONS[name][0]!r}"
    )


def test_the_curl_command_sends_the_very_bytes(tmp_path: Path) -> None:
    """A shell and a program in curl's place tell what curl would be given."""
    body = b'@{"it\'s": "$HOME `x` \xff"}\n\n'
    ended = inbox_command(
        tmp_path, "sign", "github", "--secret-env", "KEY", "--type", "push", "--url", URL, stdin=body, KEY="hush"
    )
    told = subprocess.run(
        ["/bin/sh", "-c", b'curl() { printf "%s\\0" "$@"; }; ' + ended.stdout], capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    assert told[:3] == [b"--request", b"POST", URL.encode()]
    assert told[-2:] == [b"--data-raw", body]
    headers = [tuple(line.decode().split(": ", 1)) for line in told[4:-2:2]]
    request = Request.of(body, headers)  # type: ignore[arg-type]
    assert providers.provider("github").verify(request, [b"hush"], time.time()) is None
    assert request.header("X-GitHub-Event") == "push"


def test_the_body_may_be_typed_before_or_behind_the_options(tmp_path: Path) -> None:
    for words in (["{}", "--secret-env", "KEY"], ["--secret-env", "KEY", "{}"]):
        ended = inbox_command(tmp_path, "sign", "github", *words, KEY="hush")
        assert shlex.split(ended.stdout.decode())[-1] == "{}"


def test_raw_is_an_http_request(tmp_path: Path) -> None:
    ended = inbox_command(
        tmp_path, "sign", "bearer", "a-b", "--secret-env", "KEY", "--raw",
        "--url", "http://user@example.com:81/in?x=1", KEY="hush",
    )  # fmt: skip
    head, _, body = ended.stdout.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[:2] == ["POST /in?x=1 HTTP/1.1", "host: example.com:81"]
    assert "content-length: 3" in lines
    assert "authorization: bearer hush" in head.decode().lower()
    assert body == b"a-b"


@pytest.mark.parametrize(
    ("words", "environment", "why"),
    [
        (["githup", "{}", "--secret-env", "KEY"], {"KEY": "k"}, "did you mean 'github'?"),
        (["github", "{}"], {}, "--secret-env"),
        (["github", "{}", "--secret-env", "KEY"], {}, "KEY is not set"),
        (["github", "{}", "--secret-env", "KEY"], {"KEY": " "}, "KEY is empty"),
        (["github", "{}", "--secret-env", "KEY", "--url", "nowhere"], {"KEY": "k"}, "no address to send to"),
        (["github", "{}", "--secret-env", "KEY", "--option", "x"], {"KEY": "k"}, "NAME=VALUE"),
        (["github", "{}", "--secret-env", "KEY", "--option", "x=1"], {"KEY": "k"}, "no option 'x'"),
        (["github", "{}", "--secret-env", "KEY", "--type", "a\r\nb: c"], {"KEY": "k"}, "printable"),
        (["slack", "{}", "--secret-env", "KEY", "--option", "tolerance_s=x"], {"KEY": "k"}, "tolerance_s"),
        (["standard-webhooks", "{}", "--secret-env", "KEY"], {"KEY": "whsec_*"}, "can't sign this"),
        (["discord", "{}", "--secret-env", "KEY"], {"KEY": "zz"}, "can't sign this"),
        (["sendgrid", "{}", "--secret-env", "KEY"], {"KEY": "no key"}, "can't sign this"),
    ],
)
def test_what_can_not_be_signed_is_refused_without_the_secret(
    tmp_path: Path, words: list[str], environment: dict[str, str], why: str
) -> None:
    ended = inbox_command(tmp_path, "sign", *words, stdin=b"", **environment)
    assert_refused(ended, why)
    assert b"whsec_*" not in ended.stderr


def test_a_body_that_no_command_line_can_hold_is_refused_for_curl_alone(tmp_path: Path) -> None:
    body = b"\0" * 5
    words = ["sign", "github", "--secret-env", "KEY"]
    assert_refused(inbox_command(tmp_path, *words, stdin=body, KEY="k"), "use --raw or --json")
    assert inbox_command(tmp_path, *words, "--raw", stdin=body, KEY="k").stdout.endswith(b"\r\n\r\n" + body)
