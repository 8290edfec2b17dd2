"""The contract files, their reader, and the command that shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from streams.channels.contracts import (
    MAPPINGS,
    Catalogue,
    ContractsError,
    Read,
    catalogue,
    known,
    leaves,
    read,
    read_text,
    shipped,
    shipped_files,
)
from streams.cli.contracts import contracts, contracts_page
from streams.domain.contract import DEFAULT, Contract

if TYPE_CHECKING:
    from pathlib import Path

CHANNELS = ["adyen", "alipay", "lithic", "marqeta", "paypal", "simulator", "stripe", "unionpay", "wechatpay"]
SCENARIO_KEYS = {
    "amount_unit": "major",
    "decline_is_final": False,
    "query_window_s": 7200,
    "park_window_s": 60,
    "payment_return_status": "RETURNED",
    "refund_return_status": "RETURNED",
    "overcapture_pct": {"restaurant": 20},
    "card_posting_window_s": 864_000,
    "hmac_sha256_key": "k",
    "tz": "Asia/Shanghai",
    "cutoff": "23:30",
    "hold_days": 1,
    "failure_fee": 30,
    "file": {
        "encodings": ["UTF-8", "GBK"],
        "delimiter": ";",
        "lead": "`",
        "decimal": ",",
        "group": ".",
        "amount_unit": "major",
        "ccy": "EUR",
        "preamble_lines": 4,
        "columns": {"a": "amount", "b": "refund_op"},
        "control_columns": {"n": "count"},
    },
    "match": False,
    "reversal": "indicator_is_original_direction",
}


def raw_of(channel: str) -> dict[str, Any]:
    [entry] = [entry for entry in shipped_files() if entry.name == f"{channel}.yaml"]
    raw: dict[str, Any] = yaml.safe_load(entry.read_text(encoding="utf-8"))
    return raw


def written(raw: dict[str, Any], name: str | None = None) -> Read:
    return read_text(yaml.safe_dump(raw, allow_unicode=True, sort_keys=False), name or f"{raw['channel']}.yaml")


def paid(**promises: Any) -> dict[str, Any]:
    """A small sound file; `promises` go into its contract."""
    contract = {"query": {"key": "merchant_number"}, **promises}
    return {"channel": "x", "title": "X", "contract": contract, "ours": dict.fromkeys(contract, "for a test")}


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(contracts, arguments)
    return result.exit_code, result.output


def test_every_channel_has_a_contract_and_all_are_sound():
    assert sorted(shipped()) == CHANNELS
    assert [problem for entry in shipped_files() for problem in read(entry).problems] == []


@pytest.mark.parametrize("channel", CHANNELS)
def test_each_value_of_a_file_is_what_the_law_reads(channel: str):
    document = raw_of(channel)
    contract = shipped()[channel]
    for path, value in leaves(document["contract"]):
        found: Any = contract
        for step in path.split("."):
            found = found[step] if isinstance(found, dict) else getattr(found, step)
        assert found == (tuple(value) if isinstance(value, list) else value), path


@pytest.mark.parametrize("channel", CHANNELS)
def test_each_value_of_a_file_says_where_it_comes_from(channel: str):
    result = written(raw_of(channel))
    assert {value.origin for value in result.values} <= {"sources", "ours", "unconfirmed"}
    assert all(value.reason for value in result.values)


def test_what_nobody_has_shown_is_counted_and_printed():
    code, output = run("check")
    assert code == 0
    count = sum(len(raw_of(channel).get("unconfirmed", {})) for channel in CHANNELS)
    assert count > 20
    assert output.splitlines()[-1] == f"9 contracts, 0 problems, {count} unconfirmed promises"
    assert output.count(": unconfirmed: ") == count
    assert "stripe.yaml: unconfirmed: idempotency.scope: " in output


def test_no_payment_channel_may_send_again_on_a_promise_that_is_unconfirmed():
    """R-034, R-050: the witness must be confirmed."""
    assert {name for name, contract in shipped().items() if contract.resubmits} == {"stripe", "simulator"}
    raw = raw_of("paypal")
    raw["contract"] |= {"submit_retry_window_s": 60, "most_submits": 2}
    raw["ours"] |= {"submit_retry_window_s": "for a test", "most_submits": "for a test"}
    [problem] = written(raw).problems
    assert problem.field == "contract.submit_retry_window_s"
    assert "unconfirmed" in problem.problem


def test_absence_is_no_witness_where_its_age_is_unconfirmed():
    raw = raw_of("alipay")
    raw["contract"]["query"]["not_found_after_s"] = 600
    assert [problem.field for problem in written(raw).problems] == ["contract.query.not_found_after_s"]


def test_every_key_of_a_scenario_contract_can_be_said():
    contract = msgspec.convert(SCENARIO_KEYS, Contract)
    for name, value in SCENARIO_KEYS.items():
        if not isinstance(value, dict):
            assert getattr(contract, name) == value
    assert contract.file is not None
    assert contract.file.columns == {"a": "amount", "b": "refund_op"}
    with pytest.raises(msgspec.ValidationError, match="unknown field `windows`"):
        msgspec.convert({**SCENARIO_KEYS, "windows": 1}, Contract)


def test_the_defaults_are_those_of_the_scenarios():
    assert (DEFAULT.query_window_s, DEFAULT.park_window_s, DEFAULT.decline_is_final) == (86_400, 86_400, True)
    assert (DEFAULT.tz, DEFAULT.cutoff, DEFAULT.hold_days, DEFAULT.match) == ("UTC", "00:00", 0, True)
    assert DEFAULT.reversal == "indicator_is_actual_direction"
    assert (DEFAULT.init_expiry_s, DEFAULT.qr_expiry_s, DEFAULT.query_after_s) == (
        900,
        1800,
        (120, 600, 1800),
    )


def test_contracts_are_equal_and_hashable_by_content():
    first, second = (msgspec.convert(SCENARIO_KEYS, Contract) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second) != hash(DEFAULT)
    assert not DEFAULT.resubmits


def test_an_account_has_its_channels_contract_unless_it_has_its_own():
    own = Contract(most_queries=7)
    contracts = Catalogue({"stripe": DEFAULT, "stripe:own": own})
    assert contracts.get("stripe:acct_1") is contracts["stripe:acct_1"] is DEFAULT
    assert contracts.get("stripe:own", DEFAULT) is own
    assert contracts.get("other:acct_1") is None
    assert contracts.get("other:acct_1", own) is own
    assert len(contracts) == len(list(contracts)) == 2
    with pytest.raises(KeyError, match="other"):
        contracts["other"]


# -- what is refused


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_promise_that_nobody_knows_is_refused_wherever_it_stands(channel: str):
    raw = raw_of(channel)
    groups = [(("contract",), raw["contract"])]
    for path, value in groups:
        groups += [((*path, key), each) for key, each in value.items() if isinstance(each, dict)]
    free = {("contract", *path.split(".")) for path in MAPPINGS}
    for path, group in groups:
        if path not in free:
            group["nonsense"] = 1
            [problem] = written(raw).problems
            assert problem.field == ".".join((*path, "nonsense"))
            assert (problem.problem, problem.fix) == ("no such promise is known", "correct the name, or leave it out")
            del group["nonsense"]


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("channel: x\ntitle: X\ncontract: {query_window_s: 1.5}", "contract.query_window_s", "Expected `int`"),
        ("channel: x\ntitle: X\ncontract: {cutoff: 10:00}", "contract.cutoff", "Expected `str`"),
        ('channel: x\ntitle: X\ncontract: {cutoff: "24:00"}', "contract.cutoff", "regex"),
        (
            "channel: x\ntitle: X\ncontract: {idempotency: {key: k, scope: account}}",
            "contract.idempotency.life_s",
            "required",
        ),
        ("channel: x\ntitle: X\ncontract: {query_after_s: []}", "contract.query_after_s", "length"),
        ("channel: x\ntitle: X", "contract", "required"),
        ("channel: x\ntitle: X\nsurprise: 1\ncontract: {}", "surprise", "no such promise"),
        ("channel: x\nchannel: y", "the file", "'channel' is repeated"),
        ("? [a]\n: b", "the file", "not YAML"),
        ("a: [", "the file", "not YAML"),
        ("- a", "the file", "Expected `object`"),
        ("", "the file", "Expected `object`"),
        ("a: !!python/object:os.system x", "the file", "not YAML"),
        ("[" * 3000, "the file", "nested"),
    ],
)
def test_an_unreadable_file_names_the_field_and_the_fix(text: str, field: str, says: str):
    result = read_text(text, "x.yaml")
    [problem] = result.problems
    assert result.document is None
    assert result.unconfirmed == {}
    assert (problem.file, problem.field) == ("x.yaml", field)
    assert says in problem.problem
    assert problem.fix
    assert str(problem) == f"x.yaml: {field}: {problem.problem}; {problem.fix}"


def test_a_file_that_cannot_be_opened_or_is_not_text_is_a_problem(tmp_path: Path):
    binary = tmp_path / "x.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (binary, tmp_path / "gone.yaml"):
        [problem] = read(path).problems
        assert "cannot be read" in problem.problem


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"channel": "y"}, "channel", "is 'y'"),
        ({"title": " "}, "title", "empty"),
        ({"ours": {}}, "contract.query.key", "nobody says"),
        ({"sources": {"query": "some book"}}, "ours.query", "also under sources"),
        ({"sources": {"query.kez": "some book"}}, "sources.query.kez", "no such field"),
        ({"sources": {"notice": "some book"}}, "sources.notice", "does not state it"),
        ({"sources": {"query.key": "because"}}, "sources.query.key", "no reason"),
    ],
)
def test_a_file_that_does_not_say_where_a_value_comes_from_is_refused(change: dict[str, Any], field: str, says: str):
    problems = written({**paid(), **change}, "x.yaml").problems
    assert [(problem.field, says in problem.problem) for problem in problems] == [(field, True)]


@pytest.mark.parametrize(
    ("path", "exists"),
    [
        ("query", True),
        ("notice.ack.headers.X", True),
        ("exponents.ISK", True),
        ("file.columns", True),
        ("exponents.ISK.x", False),
        ("tz.name", False),
        ("query.keys", False),
        ("", False),
    ],
)
def test_a_path_is_known_only_if_the_contract_has_it(path: str, exists: bool):  # noqa: FBT001
    assert known(path) is exists


def test_the_longest_path_says_where_a_value_comes_from():
    raw = paid()
    raw["unconfirmed"] = {"query.key": "nobody knows"}
    result = written(raw)
    assert [(value.path, value.origin) for value in result.values] == [("query.key", "unconfirmed")]


def test_two_files_of_one_channel_are_refused_together():
    twice = [written(paid()), written(paid())]
    with pytest.raises(ContractsError, match="more than one file") as error:
        catalogue(twice)
    assert len(error.value.problems) == 2


# -- the command


def test_check_tells_what_is_wrong_with_a_file_and_exits_with_1(tmp_path: Path):
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(paid(most_submits=2)))
    code, output = run("check", str(path))
    assert code == 1
    assert "x.yaml: contract.most_submits: 2 submits in a retry window of 0 s; state both" in output
    assert output.endswith("1 contracts, 1 problems, 0 unconfirmed promises\n")


def test_check_accepts_a_sound_file_of_the_user(tmp_path: Path):
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(paid()))
    assert run("check", str(path)) == (
        0,
        "x.yaml: sound, 1 values, 0 unconfirmed promises\n1 contracts, 0 problems, 0 unconfirmed promises\n",
    )


def test_list_has_one_line_a_channel():
    code, output = run("list")
    assert code == 0
    assert [line.split()[0] for line in output.splitlines()] == CHANNELS


def test_show_tells_every_promise_of_a_channel_or_of_an_account():
    code, output = run("show", "stripe:acct_1")
    assert code == 0
    assert "  idempotency.life_s = 86400    sources: " in output
    assert "  refunds.after_payment_s is not stated    unconfirmed: " in output
    assert run("show", "stripe") == (code, output)


def test_show_names_the_channels_there_are():
    code, output = run("show", "strype")
    assert code == 2
    assert "there is no contract 'strype'; use one of adyen, alipay" in output


def test_the_page_shows_every_channel_value_and_doubt():
    page = contracts_page()
    for channel in CHANNELS:
        raw = raw_of(channel)
        assert f"\n| {channel} | " in page
        for path, _value in leaves(raw["contract"]):
            assert f"\n| `{path}` | " in page
        for path, reason in raw.get("unconfirmed", {}).items():
            assert f"**unconfirmed**: {reason}" in page, path
    assert not re.search(r"\| \s*\|", page)
