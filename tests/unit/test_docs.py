"""The generated pages, and the command that writes and checks them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from streams import codec
from streams.cli.docs import docs, pages, stale
from streams.topics import Topics

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
