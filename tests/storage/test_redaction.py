"""Redaction: every form of a secret, in texts, bytes, JSON values and logs."""

import base64
import cProfile
import gc
import json
import logging
import pathlib
import urllib.parse
from typing import Any

import pytest

from ripieno.storage.redaction import Redactor, redact_logs

SECRET = 'zebra"7781/quilt ü'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote_plus(SECRET),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        repr(SECRET.encode())[2:-1],
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_each_form_is_replaced(form: str) -> None:
    assert Redactor([f" {SECRET}\n"]).text(f"<{form}>, <{form}>") == "<[hidden]>, <[hidden]>"


@pytest.mark.parametrize("before", ["", "u", "us", "use"])
def test_base64_of_a_longer_text_is_replaced(before: str) -> None:
    written = base64.b64encode(f"{before}{SECRET}:and more".encode()).decode()
    shown = Redactor([SECRET]).text(f"Basic {written}")
    assert shown.count("[hidden]") == 1
    assert written not in shown


def test_the_longest_goes_first_and_short_ones_stay() -> None:
    redactor = Redactor(["password", "password-of-mine", "short"], mark=lambda secret: f"<{len(secret)}>")
    assert redactor.text("password-of-mine, password, short") == "<16>, <8>, short"
    assert not Redactor(["short"])


def test_values_keep_their_form() -> None:
    value: dict[str, Any] = {
        "a 81726354": [81726354, 8172635.4, True, None, {"data": base64.b64encode(b"\x0081726354\x01").decode()}],
        "url": f"data:image/png;base64,{base64.b64encode(b'81726354').decode()}",
    }
    assert Redactor(["81726354"]).value(value) == {
        "a [hidden]": ["[hidden]", 8172635.4, True, None, {"data": base64.b64encode(b"\x00[hidden]\x01").decode()}],
        "url": f"data:image/png;base64,{base64.b64encode(b'[hidden]').decode()}",
    }


def test_a_text_with_escapes_and_without_a_secret_is_not_decoded_as_a_whole() -> None:
    page = pathlib.Path("documentation/tutorials/the-journal.rst").read_text(encoding="utf-8")
    text = json.dumps({"page": f"{page}; \\.*\t%41 &amp; =3D"}) + "\n" + page
    redactor = Redactor(["sk-proj-Ab3xY9zQ-77812"])
    redactor.text(text)
    profile = cProfile.Profile()
    shown = profile.runcall(redactor.text, text)
    assert shown is text
    # Decoding the whole text takes more than 600 calls: one for each escape, three for each view.
    assert sum(entry.callcount for entry in profile.getstats()) < 400


def test_logs_are_redacted_as_long_as_the_redactor_lives(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logger = logging.getLogger("tests.redaction")
    redactor = Redactor([SECRET])
    redact_logs(("tests.redaction",), redactor)
    logger.debug("It is %s.", SECRET)
    del redactor
    gc.collect()
    logger.debug("It was %s.", SECRET)
    assert caplog.messages == ["It is [hidden].", f"It was {SECRET}."]
