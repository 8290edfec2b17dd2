"""What a contract file may say, to the last value, and what silence means.

A file that was accepted stays accepted and keeps its meaning: each bound and each default is a promise to whoever wrote one.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streams.domain.contract import Contract, Idempotency, Query

YEAR_S = 366 * 86_400
BOUNDS: dict[str, tuple[int, int]] = {
    "submit_retry_window_s": (0, YEAR_S),
    "lease_s": (1, YEAR_S),
    "most_queries": (1, 1000),
    "most_submits": (1, 100),
    "query_jitter_pct": (0, 1000),
    "concurrency": (1, 10_000),
    "rate_per_s": (1, 100_000),
    "life_days": (1, 3660),
    "hold_days": (0, 366),
    "failure_fee": (0, 10**9),
    "exponents.JPY": (0, 4),
    "overcapture_pct.restaurant": (0, 1000),
    "notice.ack.status": (200, 599),
    "notice.redelivery.most": (1, 1000),
    "differences.fee_rounding": (0, 100),
    "differences.rounding": (0, 100),
    "file.preamble_lines": (0, 1000),
}
LENGTHS: dict[str, tuple[int, int]] = {
    "tz": (1, 128),
    "notice.ack.body": (0, 256),
    "file.delimiter": (1, 1),
}
FEWEST: dict[str, Any] = {"query_after_s": 1, "refunds.poll_after_s": 1, "file.encodings": "UTF-8"}


def read(path: str, value: Any) -> Contract:
    """A contract that says one thing, as a file would."""
    said: Any = value
    for name in reversed(path.split(".")):
        said = {name: said}
    if "file" in said:
        said["file"]["columns"] = {"a": "amount"}
    return msgspec.convert(said, Contract)


def accepted(path: str, value: Any) -> bool:
    try:
        read(path, value)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize("path", BOUNDS)
def test_a_number_is_accepted_from_its_least_to_its_most(path: str):
    least, most = BOUNDS[path]
    assert [accepted(path, value) for value in (least - 1, least, most, most + 1)] == [False, True, True, False]


@pytest.mark.parametrize("path", LENGTHS)
def test_a_text_is_accepted_from_its_shortest_to_its_longest(path: str):
    least, most = LENGTHS[path]
    assert [accepted(path, "x" * length) for length in (least, most, most + 1)] == [True, True, False]
    assert accepted(path, "") == (least == 0)


@pytest.mark.parametrize("path", FEWEST)
def test_a_schedule_or_a_list_of_encodings_says_at_least_one(path: str):
    assert accepted(path, [FEWEST[path]])
    assert not accepted(path, [])


def test_a_key_for_raw_callbacks_is_not_empty():
    assert accepted("hmac_sha256_key", "k")
    assert not accepted("hmac_sha256_key", "")


MISSPELT: dict[str, dict[str, Any]] = {
    "contract": {"lease": 60},
    "idempotency": {"idempotency": {"key": "k", "scope": "account", "life_s": None, "checks": True}},
    "query": {"query": {"key": "either", "not_found_after": 60}},
    "notice": {"notice": {"proves": False}},
    "ack": {"notice": {"ack": {"state": 204}}},
    "redelivery": {"notice": {"redelivery": {"after": [1]}}},
    "failures": {"failures": {"not-accepted": ["X"]}},
    "refunds": {"refunds": {"final": True}},
    "differences": {"differences": {"fee": ["x"]}},
    "file": {"file": {"columns": {}, "encoding": "UTF-8"}},
}


@pytest.mark.parametrize("group", MISSPELT)
def test_a_promise_under_a_name_that_nobody_knows_is_not_overheard(group: str):
    """It would be taken for none, and the default for what the channel said."""
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert(MISSPELT[group], Contract)


SILENCE = {
    "query_after_s": (120, 600, 1800), "query_jitter_pct": 12, "query_max_delay_s": 21_600, "query_window_s": 86_400,
    "most_queries": 32, "silence_is_stuck": True, "init_expiry_s": 900, "qr_expiry_s": 1800, "park_window_s": 86_400,
    "submit_retry_window_s": 0, "most_submits": 1, "lease_s": 60, "concurrency": 16, "rate_per_s": None, "life_days": 400,
    "decline_is_final": True, "match": True, "hold_days": 0,
    "notice.proves_money": True, "notice.ack.status": 200, "notice.ack.refuse_status": 400,
    "refunds.success_is_final": False, "refunds.partial": True, "refunds.several": True,
    "refunds.poll_after_s": (120, 600, 1800), "refunds.poll_window_s": 604_800,
    "differences.fee_rounding": 0, "differences.rounding": 0,
}  # fmt: skip


@pytest.mark.parametrize("path", SILENCE)
def test_silence_has_one_meaning_in_every_release(path: str):
    """R-035: the least that a channel can promise, and a schedule that suits one that promises nothing (R-053, R-058, R-059, R-062)."""
    value: Any = Contract()
    for name in path.split("."):
        value = getattr(value, name)
    assert (value, type(value)) == (SILENCE[path], type(SILENCE[path]))


def test_a_file_begins_with_its_header_unless_it_says_otherwise():
    layout = read("file.columns", {"a": "amount"}).file
    assert layout is not None
    assert layout.preamble_lines == 0


def test_an_idempotent_channel_is_not_believed_to_compare_parameters_unless_it_says_so():
    """R-034, R-035."""
    assert not Idempotency(key="k", scope="account", life_s=None).checks_parameters


@pytest.mark.parametrize(("most_submits", "window_s", "may"), [(1, 1, False), (2, 0, False), (2, 1, True)])
def test_the_second_sending_and_the_first_second_are_where_sending_again_begins(most_submits, window_s, may):
    """R-050, R-051."""
    key = Idempotency(key="k", scope="account", life_s=None)
    contract = Contract(idempotency=key, most_submits=most_submits, submit_retry_window_s=window_s)
    assert contract.resubmits is may


@pytest.mark.parametrize(
    ("query", "finds"),
    [
        (Query(key="merchant_number"), True),
        (Query(key="either"), True),
        (Query(key="transaction"), False),
        (Query(key="merchant_number", operations=("refund",)), False),
    ],
)
def test_a_lost_submit_is_found_only_by_our_own_number_where_submits_can_be_asked_for(query: Query, finds):
    """R-050."""
    assert query.finds_lost_submits is finds
