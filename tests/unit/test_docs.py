"""The generated pages, and the command that writes and checks them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from streams import codec
from streams.agents.payments import router
from streams.cli.docs import docs, pages, stale
from streams.domain.tables import MACHINE
from streams.engine.position import Tag
from streams.engine.topology import Poison
from streams.topics import Topics
from tests.support.worlds import World
from tests.unit.engine.tally import In, work

DOCS = Path(__file__).parents[2] / "docs"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(docs, arguments)
    return result.exit_code, result.output


def test_the_committed_pages_are_what_the_code_says():
    assert stale(DOCS) == [], "run `make docs`"


def test_pages_are_the_same_every_time_they_are_made():
    assert pages() == pages()


def test_every_message_type_of_a_topic_has_a_schema():
    named = {message for topic in Topics.load().all for message in topic.messages}
    assert named == set(codec.schemas())


def test_the_codec_admits_on_each_input_what_the_list_says():
    listed = {topic.name: set(topic.messages) for topic in Topics.load().all if topic.direction == "input"}
    admitted = {
        name: {kind.__struct_config__.tag for kind in get_args(union) or (union,)}
        for name, union in codec.TOPICS.items()
    }
    assert admitted == listed


def test_the_topics_page_shows_every_topic_with_its_types_and_configuration():
    page = pages()["topics.md"]
    for topic in Topics.load().all:
        assert page.count(f"| `{topic.topic}` |") == 2
        for message in topic.messages:
            assert f"[{message}](schemas/{message}.json)" in page
    assert "| `payments.state` | state | 3 | compact |" in page


def test_every_schema_is_a_json_schema_that_refers_to_itself_only():
    for name, text in pages().items():
        if name.startswith("schemas/"):
            schema = json.loads(text)
            assert schema["$schema"].startswith("https://json-schema.org/")
            for reference in re.findall(r'"\$ref": "([^"]+)"', text):
                assert reference.removeprefix("#/$defs/") in schema["$defs"]


def test_the_machines_page_holds_a_diagram_that_is_drawn():
    page = pages()["machines.md"]
    assert page.count("```") == 2 * 4
    assert "```mermaid\nstateDiagram-v2\n" in page


def test_the_machines_page_names_every_input_that_is_neither_drawn_nor_refused():
    page = pages()["machines.md"]
    for state, moves in MACHINE.items():
        for word, after in moves.items():
            if after == state:
                assert re.search(rf"`{word}`[^;]* in {state}\b", page), (state, word)
            else:
                assert f"{state} --> {after}: {word}" in page


def test_the_topics_page_names_every_header_that_a_record_can_have():
    world = World()
    for row in ("create P1", "start P1"):
        world.row(row)
    cause = In(b"poison", headers=(("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"),))
    route = router(dict.fromkeys(codec.OUTPUTS, "t"))
    written = {name for message in world.said for name, _ in route(message, cause).headers}
    for record in (cause, cause._replace(value=b"poison" * 4000)):
        bad = work(dead_letter_bytes=10_000)
        bad._bury(record, Poison("spoiled", "send another"))
        written |= {
            name for sends in bad.entries(Tag((1, 1))).values() for _, _, headers in sends for name, _ in headers
        }
    shown = set(re.findall(r"^\| `([a-z0-9_-]+)` \| ", pages()["topics.md"].partition("## Headers")[2], re.MULTILINE))
    assert written == shown


def test_a_smaller_replication_never_asks_for_no_replica_in_sync():
    page = pages()["topics.md"]
    assert "at most one less than it, and at least 1" in page
    for replication, in_sync in ((1, "1"), (2, "1"), (3, "2"), (5, "2")):
        for topic in Topics.load(replication=replication).all:
            assert topic.config()["min.insync.replicas"] == in_sync


@pytest.mark.parametrize(
    "page", [*DOCS.glob("*.md"), DOCS.parent / "README.md", DOCS.parent / "tests" / "README.md"], ids=str
)
def test_every_link_of_a_page_leads_somewhere(page: Path):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_is_read_in_one_go():
    assert len((DOCS.parent / "README.md").read_text().splitlines()) <= 120


def test_write_makes_what_check_accepts_and_removes_what_is_gone(tmp_path: Path):
    folder = str(tmp_path / "docs")
    assert run("check", "--folder", folder)[0] == 1
    assert run("write", "--folder", folder)[0] == 0
    assert run("check", "--folder", folder) == (0, "")
    gone = tmp_path / "docs" / "schemas" / "gone.json"
    gone.write_text("{}")
    code, output = run("check", "--folder", folder)
    assert (code, "schemas/gone.json is stale; run `concord docs write`" in output) == (1, True)
    run("write", "--folder", folder)
    assert not gone.exists()


@pytest.mark.parametrize("page", ["topics.md", "machines.md", "schemas/callback.json"])
def test_a_page_that_was_edited_by_hand_is_stale(tmp_path: Path, page: str):
    run("write", "--folder", str(tmp_path))
    (tmp_path / page).write_text("by hand")
    code, output = run("check", "--folder", str(tmp_path))
    assert code == 1
    assert f"{page} is stale" in output
