"""What may not be promised together: each rule between the fields of a contract, and mutations of the files that come with us."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.channels.contracts import MAPPINGS, hold, leaves, shipped, shipped_files
from streams.channels.promises import queries
from streams.domain.contract import Contract, Idempotency

KEY = {"key": "k", "scope": "account", "life_s": 86_400}
QUERY = {"query": {"key": "merchant_number"}}
FILE = {"columns": {"a": "amount", "o": "op"}, "ccy": "EUR"}


def problems(contract: dict[str, Any]) -> dict[str, str]:
    """field -> problem of a small file with this contract."""
    document = {"channel": "x", "title": "X", "contract": contract, "ours": dict.fromkeys(contract, "for a test")}
    return {each.field: each.problem for each in hold(document, "x.yaml").problems}


def test_a_channel_that_can_be_neither_repeated_nor_asked_is_refused_unless_people_look_after_it():
    """R-051."""
    assert "neither idempotency nor a query" in problems({})["contract.isolation"]
    assert problems({"isolation": "manual"}) == {}


@pytest.mark.parametrize(
    "promise",
    [
        {"query": {"key": "transaction"}},
        {"query": {"key": "either", "operations": ["refund"]}},
        {"idempotency": {**KEY, "operations": ["refund"]}},
    ],
)
def test_a_promise_that_does_not_reach_a_lost_submit_is_none(promise: dict[str, Any]):
    """R-050, R-051."""
    assert list(problems(promise)) == ["contract.isolation"]


@pytest.mark.parametrize("promise", [QUERY, {"query": {"key": "either"}}, {"idempotency": KEY}])
def test_one_way_to_find_a_lost_submit_is_enough(promise: dict[str, Any]):
    assert problems(promise) == {}


@pytest.mark.parametrize("role", ["cards", "bank"])
def test_who_takes_no_payments_promises_nothing_about_them(role: str):
    assert problems({"role": role}) == {}
    wrong = problems({"role": role, **QUERY, "idempotency": KEY, "isolation": "manual"})
    assert set(wrong) == {"contract.query", "contract.idempotency", "contract.isolation"}


@pytest.mark.parametrize(
    ("window", "lease", "fits"), [(86_339, 60, True), (86_340, 60, False), (86_400, 1, False), (3600, 60, True)]
)
def test_a_key_must_outlive_the_last_request_that_bears_it(window: int, lease: int, fits: bool):  # noqa: FBT001
    contract = {"idempotency": KEY, "submit_retry_window_s": window, "most_submits": 2, "lease_s": lease}
    assert (problems(contract) == {}) is fits


def test_a_key_that_lives_as_long_as_its_operation_outlives_every_window():
    forever = {**KEY, "life_s": None}
    assert problems({"idempotency": forever, "submit_retry_window_s": 864_000, "most_submits": 9}) == {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"submit_retry_window_s": 60, "idempotency": KEY}, "most_submits"),
        ({"most_submits": 2}, "most_submits"),
        ({"submit_retry_window_s": 60, "most_submits": 2}, "submit_retry_window_s"),
        (
            {
                "submit_retry_window_s": 60,
                "most_submits": 2,
                "idempotency": {**KEY, "operations": ["refund"]},
            },
            "submit_retry_window_s",
        ),
        (
            {"submit_retry_window_s": 60, "most_submits": 2, "idempotency": KEY, "isolation": "manual"},
            "submit_retry_window_s",
        ),
        ({"query_after_s": [600, 120]}, "query_after_s"),
        ({"query_after_s": [120, 120]}, "query_after_s"),
        ({"query_after_s": [120, 20_000], "query_window_s": 20_000}, "query_after_s"),
        ({"query_window_s": 1800}, "query_after_s"),
        ({"refunds": {"poll_after_s": [5, 5]}}, "refunds.poll_after_s"),
        ({"refunds": {"poll_after_s": [5], "poll_window_s": 5}}, "refunds.poll_after_s"),
        ({"query_max_delay_s": 1799}, "query_max_delay_s"),
        ({"most_queries": 8}, "most_queries"),
        ({"query_window_s": 20_000_000, "query_after_s": [1], "lease_s": 1, "query_max_delay_s": 1}, "most_queries"),
        ({"lease_s": 121}, "lease_s"),
        ({"query": {"key": "merchant_number", "not_found_after_s": 86_400}}, "query.not_found_after_s"),
        ({"query": {"key": "merchant_number", "not_found_after_s": 0}}, "query.not_found_after_s"),
        ({"failures": {"final": ["A"], "unknown": ["A"]}}, "failures.unknown"),
        ({"failures": {"exists": ["A", "A"]}}, "failures.exists"),
        ({"payment_return_status": "SUCCESS"}, "payment_return_status"),
        ({"refund_return_status": "FAILED"}, "refund_return_status"),
        ({"refund_return_status": "BACK", "refunds": {"success_is_final": True}}, "refunds.success_is_final"),
        ({"refunds": {"partial": False}}, "refunds.several"),
        ({"refunds": {"after_payment_s": 401 * 86_400 - 36 * 86_400}, "life_days": 364}, "life_days"),
        ({"notice": {"window_s": 300}}, "notice.window_s"),
        ({"notice": {"ack": {"status": 302}}}, "notice.ack.status"),
        ({"notice": {"ack": {"refuse_status": 200}}}, "notice.ack.refuse_status"),
        ({"notice": {"ack": {"status": 204, "body": "ok"}}}, "notice.ack.body"),
        ({"notice": {"redelivery": {"after_s": [1, 5], "most": 2}}}, "notice.redelivery.most"),
        ({"notice": {"redelivery": {"after_s": [1, 5], "life_s": 5}}}, "notice.redelivery.life_s"),
        ({"notice": {"redelivery": {"life_s": 172_801}}, "life_days": 2}, "life_days"),
        ({"hmac_sha256_key": "secret"}, "hmac_sha256_key"),
        ({"exponents": {"JPY": 0}}, "exponents.JPY"),
        ({"exponents": {"XAU": 2}}, "exponents.XAU"),
        ({"exponents": {"ZZZ": 2}}, "exponents.ZZZ"),
        ({"tz": "Mars/Olympus"}, "tz"),
        ({"tz": "../etc"}, "tz"),
        ({"idempotency": {**KEY, "duplicate_answer": "refused"}, "query": {"key": "transaction"}}, "idempotency.duplicate_answer"),
        ({"file": {**FILE, "encodings": ["UTF-9"]}}, "file.encodings"),
        ({"file": {"columns": {"o": "op"}, "ccy": "EUR"}}, "file.columns"),
        ({"file": {"columns": {"a": "amount"}, "ccy": "EUR"}}, "file.columns"),
        ({"file": {"columns": {"a": "amount", "o": "op", "p": "op"}, "ccy": "EUR"}}, "file.columns"),
        ({"file": {"columns": {"a": "amount", "o": "op"}}}, "file.ccy"),
        ({"file": {"columns": {"a": "amount", "o": "op", "c": "ccy"}, "ccy": "EUR"}}, "file.ccy"),
        ({"file": {**FILE, "group": "."}}, "file.group"),
        ({"file": {**FILE, "delimiter": '"'}}, "file.delimiter"),
        ({"file": {**FILE, "lead": ","}}, "file.delimiter"),
    ],
)  # fmt: skip
def test_promises_that_cannot_hold_together_name_the_field(change: dict[str, Any], field: str):
    assert list(problems({**QUERY, **change})) == [f"contract.{field}"]


@pytest.mark.parametrize(
    ("contract", "count"),
    [
        (Contract(), 9),
        (Contract(query_after_s=(10,), query_window_s=71), 3),
        (Contract(query_after_s=(10,), query_window_s=70), 3),
        (Contract(query_after_s=(10,), query_window_s=81, query_max_delay_s=20), 5),
    ],
)
def test_queries_are_counted_as_the_schedule_makes_them(contract: Contract, count: int):
    """R-053, R-054: each distance is twice the one before, up to the longest."""
    assert queries(contract) == count


def test_the_same_key_is_sent_again_only_where_a_window_a_count_and_a_key_allow_it():
    key = Idempotency(key="k", scope="account", life_s=None)
    assert Contract(idempotency=key, most_submits=2, submit_retry_window_s=60).resubmits
    assert not Contract(idempotency=key, most_submits=2).resubmits
    assert not Contract(most_submits=2, submit_retry_window_s=60).resubmits


# -- mutations of the files that come with the product

DOCUMENTS = {entry.name: yaml.safe_load(entry.read_text(encoding="utf-8")) for entry in shipped_files()}
VALUES = [(name, path) for name, document in DOCUMENTS.items() for path, _value in leaves(document["contract"])]
NAMED = [(name, path) for name, path in VALUES if path.rpartition(".")[0] not in MAPPINGS]
MARKS = [
    (name, section, path)
    for name, document in DOCUMENTS.items()
    for section in ("sources", "ours", "unconfirmed")
    for path in document.get(section, {})
]
WRONG_TYPES = st.sampled_from([1.5, -1, [[]], {"x": {}}, {"": 1}, "\N{NUL}" * 300, 10**12])


def mutated(name: str, path: str, mutate: Any) -> list[str]:
    document = copy.deepcopy(DOCUMENTS[name])
    group = document["contract"]
    *steps, last = path.split(".")
    for step in steps:
        group = group[step]
    mutate(group, last)
    return [problem.field for problem in hold(document, name).problems]


@given(where=st.sampled_from(VALUES), value=WRONG_TYPES)
@settings(deadline=None)
def test_a_value_of_another_kind_is_refused_wherever_it_stands(where: tuple[str, str], value: Any):
    assert mutated(*where, lambda group, last: group.__setitem__(last, value))


@given(where=st.sampled_from(NAMED), extra=st.text("abcdefgh_", min_size=1, max_size=8))
@settings(deadline=None)
def test_a_name_that_is_misspelt_is_refused_wherever_it_stands(where: tuple[str, str], extra: str):
    def rename(group: dict[str, Any], last: str) -> None:
        group[f"{last}{extra}"] = group.pop(last)

    name, path = where
    assert mutated(name, path, rename)


@given(where=st.sampled_from(MARKS))
@settings(deadline=None)
def test_a_mark_cannot_be_taken_away_in_silence(where: tuple[str, str, str]):
    """What only this mark covered has no source then; a doubt about what is not stated may go."""
    name, section, path = where
    document = copy.deepcopy(DOCUMENTS[name])
    del document[section][path]
    result = hold(document, name)
    orphans = {f"contract.{value.path}" for value in result.values if not value.origin}
    assert {problem.field for problem in result.problems} == orphans
    assert orphans or section == "unconfirmed" or any(value.path.startswith(path) for value in result.values)


@given(after=st.lists(st.integers(1, 10_000), min_size=1, max_size=6), window=st.integers(0, 20_000))
@settings(deadline=None)
def test_only_schedules_that_ascend_and_end_inside_their_window_are_accepted(after: list[int], window: int):
    sound = after == sorted(set(after)) and after[-1] < window
    contract = {**QUERY, "query_after_s": after, "query_window_s": window, "lease_s": 1, "most_queries": 1000}
    assert ("contract.query_after_s" not in problems(contract)) is sound


def test_what_comes_with_the_product_was_not_changed_by_these_tests():
    assert len(shipped()) == len(DOCUMENTS) == 9
