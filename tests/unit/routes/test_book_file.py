"""A route book from a file: what cannot be meant is refused by the name of its field, with the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.domain.remarks import remarks
from streams.domain.score import Hours, Maintenance
from streams.routes.book_file import BookError, read

EXAMPLE = Path(__file__).parents[3] / "examples" / "routes.yaml"
OFFER = "{channel: a, limits: {CNY: {}}}"


def book(folder: Path, text: str):
    path = folder / "book.yaml"
    path.write_text(text)
    return read(path)


def test_the_example_is_a_book_and_its_warnings_are_meant():
    found = read(EXAMPLE)
    assert [one.channel for one in found.offers] == ["simulator:a", "simulator:b", "simulator:c"]
    assert found.rules[2].hours == Hours(start="2330", end="0600")
    (window,) = found.offers[2].maintenance
    assert window.ends - window.starts == 2 * 3_600_000
    assert any(one.warning for one in remarks(found))


def test_yaml_times_are_milliseconds(tmp_path):
    found = book(
        tmp_path, f"offers: [{OFFER[:-1]}, maintenance: [{{starts: 2026-01-01T00:00:00Z, ends: 1767225600001}}]}}]"
    )
    assert found.offers[0].maintenance == (Maintenance(starts=1_767_225_600_000, ends=1_767_225_600_001),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("offers: [{channel: a, limits: {CNY: {}}, fee: 3}]", "offers[0]: object contains unknown field `fee`; take it out"),
        ("offers: [{channel: a}]", "offers[0]: object missing required field `limits`; add it"),
        (f"offers: [{OFFER}]\nrules: [{{name: r, channel: a, hours: {{start: 0600, end: '0700'}}}}]", "rules[0].hours.start: "),
        (f"offers: [{OFFER}]\nrules: [{{name: r, channel: a, hours: {{start: 0600, end: '0700'}}}}]", "put it in quotes"),
        (f"offers: [{OFFER[:-1]}, fee_ppm: 0.2}}]", "offers[0].fee_ppm: expected `int`, got `float`; use a whole number"),
        (f"offers: [{OFFER[:-1]}, fee_ppm: 2000000}}]", "offers[0].fee_ppm: "),
        ("offers: []", "offers: empty; list at least one"),
        (f"offers: [{OFFER}, {OFFER}]", "offers: channel 'a' stands there 2 times"),
        (f"zone: Mars/Base\noffers: [{OFFER}]", "zone: there is no time zone 'Mars/Base'"),
        ("offers: [{channel: a, limits: {yuan: {}}}]", "offers[0].limits: 'yuan' is no currency"),
        ("offers: [{channel: a, limits: {CNY: {least: 5, most: 4}}}]", "offers[0].limits.CNY.most: below least"),
        (f"offers: [{OFFER}]\nrules: [{{name: r, channel: a, amount_min: 5, amount_max: 4}}]", "rules[0].amount_max: below"),
        (f"offers: [{OFFER[:-1]}, maintenance: [{{starts: 2, ends: 2}}]}}]", "offers[0].maintenance[0].ends: not after"),
        (f"offers: [{OFFER[:-1]}, maintenance: [{{starts: 2026-01-01T00:00:00, ends: 2}}]}}]", "a time without an offset"),
        ("offers: [", "line 1 is neither YAML nor JSON"),
        ("[]", "the book: expected `object`, got `array`"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_the_fix(tmp_path, text: str, said: str):
    with pytest.raises(BookError) as refused:
        book(tmp_path, text)
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BookError, match=r"none\.yaml: cannot be read"):
        read(tmp_path / "none.yaml")
