"""The words about a refund, for every combination of what the parties show (R-210 to R-213, R-221, R-230 to R-234).

`wording.txt` beside this file is the snapshot: every sentence, the case of every combination, and a digest of all texts.
After a wanted change run this file once with CONCORD_SNAPSHOT=write.
"""

from __future__ import annotations

import hashlib
import os
import re
from itertools import groupby, product
from pathlib import Path

import pytest

from streams.domain import wording
from streams.domain.layers import CARD, CLOSED, MERCHANT, OWNERS, PROCESSOR, WALLET, Layers
from streams.domain.wording import answers_of, case_of, next_owner, origin, progress

SNAPSHOT = Path(__file__).with_name("wording.txt")
CHECKS = (None, 1_741_000_000_000)
LANGUAGES = ("zh", "en")
ALL = [Layers(*values) for values in product(MERCHANT, PROCESSOR, CARD, WALLET, (False, True))]
RETURNED = re.compile(r"退回到卡|back on (the|your) card|returned to (the|your) card", re.IGNORECASE)
FAILURE = re.compile(
    r"拒绝了|未成功|撤回该笔|未获确认|refused the|did not go through|took the refund back|not confirmed; this"
)


def everything():
    for layers, checked, owner, language in product(ALL, CHECKS, OWNERS, LANGUAGES):
        yield layers, progress(layers, checked, owner, language)


def code(layers: Layers) -> str:
    return " ".join(value or "-" for value in (layers.merchant, layers.processor, layers.card))


def snapshot() -> str:
    tables = ("HEADLINES", "MERCHANT", "PROCESSOR", "CARD", "WALLET", "OWNERS", "ANSWERS")
    lines = []
    for table in tables:
        lines += [f"# {table}"]
        lines += [f"{key or '-'} | {said.zh} | {said.en}" for key, said in getattr(wording, table).items()]
    lines += ["# merchant processor card: wallet -> case, owner, answers"]
    for release in (False, True):
        lines += ["## a release of a hold" if release else "## a refund"]
        chosen = [layers for layers in ALL if layers.release is release]
        for name, group in groupby(chosen, code):
            cells = [
                (
                    f"{case_of(layers)}, {next_owner(layers)}, {'+'.join(answers_of(layers)) or '-'}",
                    layers.wallet or "-",
                )
                for layers in group
            ]
            said = [(text, "/".join(w for _text, w in same)) for text, same in groupby(cells, lambda cell: cell[0])]
            lines += [f"{name}: {'; '.join(f'{wallets} -> {text}' for text, wallets in said)}"]
    texts = hashlib.sha256()
    count = 0
    for _layers, page in everything():
        texts.update(repr(page).encode())
        count += 1
    return "\n".join([*lines, f"# {count} pages, SHA-256 {texts.hexdigest()}", ""])


def test_every_combination_says_what_the_snapshot_says():
    if os.environ.get("CONCORD_SNAPSHOT") == "write":
        SNAPSHOT.write_text(snapshot(), encoding="utf-8")
    assert snapshot() == SNAPSHOT.read_text(encoding="utf-8")


def test_every_combination_has_all_its_lines_in_both_languages():
    assert len(ALL) == 5 * 6 * 4 * 3 * 2
    for _layers, page in everything():
        assert all(page[2:8])
        assert page.case in wording.HEADLINES


def test_money_is_said_to_be_on_the_card_only_when_the_card_shows_it_posted():
    """R-211, R-230, R-232."""
    saying = {layers for layers, page in everything() if any(RETURNED.search(line) for line in page.lines)}
    assert saying
    assert {layers.card for layers in saying} == {"POSTED"}
    assert {layers.merchant for layers in saying} == {"COMPLETED"}
    assert not any(layers.release for layers in saying)


def test_the_success_mark_lights_in_exactly_one_combination():
    """R-233."""
    assert {layers for layers, page in everything() if page.mark} == {CLOSED}
    assert {page.case for layers, page in everything() if layers == CLOSED} == {"closed"}
    assert [layers for layers in ALL if case_of(layers) == "closed"] == [CLOSED]


def test_a_refund_that_is_only_submitted_has_the_restrained_text_word_for_word():
    """R-230."""
    submitted = Layers(merchant="SUBMITTED")
    chinese = "收款方显示已发起退款，当前尚未在资金网络中收到入账记录"
    assert progress(submitted, None, "MERCHANT", "zh").headline == chinese
    english = "The payee shows a refund was initiated; no posting has yet been received from the funds network."
    assert progress(submitted, None, "MERCHANT", "en").headline == english
    for processor, wallet in product((None, "RECEIVED", "APPROVED", "SETTLED"), WALLET):
        assert case_of(Layers("SUBMITTED", processor, None, wallet)) == "submitted"


@pytest.mark.parametrize("card", ["PENDING", "POSTED"])
def test_with_card_side_data_only_the_payee_is_said_to_be_unknown(card: str):
    """R-232."""
    for wallet, language in product(WALLET, LANGUAGES):
        page = progress(Layers(card=card, wallet=wallet), None, "MERCHANT", language)
        assert ("收款方进度未知" if language == "zh" else "payee's progress is not known") in page.headline


def test_failure_is_told_only_where_the_payee_or_the_chain_said_no():
    """R-234."""
    for layers, page in everything():
        if FAILURE.search(page.headline):
            assert layers.refused


def test_no_news_from_anyone_is_no_failure_and_no_success():
    page = progress(Layers(), None, next_owner(Layers()), "en")
    assert (page.case, page.mark, page.answers) == ("nothing", False, ())


def test_a_release_of_a_hold_is_never_told_as_a_refund():
    """R-212."""
    for layers in ALL:
        assert case_of(layers).startswith("release-") is layers.release
        assert (answers_of(layers) == ("only-a-hold",)) is layers.release


@pytest.mark.parametrize(
    ("layers", "answer"),
    [
        (Layers("COMPLETED", "SETTLED"), "issued-no-entry"),
        (Layers("COMPLETED", "SETTLED", "POSTED", "PENDING"), "balance-unchanged"),
        (Layers(card="POSTED"), "balance-unchanged"),
        (Layers(card="PENDING", release=True), "only-a-hold"),
    ],
)
def test_the_runbook_has_an_answer_for_each_of_its_questions(layers: Layers, answer: str):
    """R-221."""
    assert answers_of(layers) == (answer,)
    assert progress(layers, None, "US", "zh").answers == (wording.ANSWERS[answer].zh,)


def test_the_last_check_and_the_next_owner_are_said_as_they_are_given():
    """R-231."""
    page = progress(Layers("PROCESSING"), 1_741_000_000_000, "PROCESSOR", "en")
    assert page.checked == "Last check: 2025-03-03 11:06 UTC"
    assert page.owner == "Next: the processing chain has to continue"
    assert page.lines[-1] == page.owner
    assert progress(Layers("PROCESSING"), None, "NOBODY", "zh").lines[-1] == "最近核对：尚未核对"


def test_somebody_must_continue_unless_all_is_closed():
    """R-231: when information is missing, the page names who must continue."""
    assert [layers for layers in ALL if next_owner(layers) == "NOBODY"] == [CLOSED]


@pytest.mark.parametrize("card", ["4111111111111111", "card 4111 1111 1111 1111", "3782-822463-10005"])
def test_a_whole_card_number_is_never_shown(card: str):
    """R-216."""
    with pytest.raises(ValueError, match="masked number"):
        origin("stripe", card)


def test_the_origin_names_channel_and_masked_card():
    assert origin("stripe", "•••• 4242").text("en") == "Paid through stripe, card •••• 4242"
    assert origin("stripe", "•••• 4242").text("zh") == "原支付渠道：stripe，卡：•••• 4242"


def test_every_case_and_every_answer_is_reached():
    assert {case_of(layers) for layers in ALL} == set(wording.HEADLINES)
    assert {answer for layers in ALL for answer in answers_of(layers)} == set(wording.ANSWERS)
    assert {next_owner(layers) for layers in ALL} == set(OWNERS)
