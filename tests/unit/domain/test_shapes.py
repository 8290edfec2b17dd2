"""What the law reads, keeps and says: nothing of it changes under its reader, and a misplaced value is an error at once.

The law makes these by the hundred for every event, so none may cost the garbage collector a visit; none can be part of a cycle.
"""

from __future__ import annotations

import inspect
from typing import get_args

import msgspec
import pytest
from msgspec import Struct, structs, to_builtins

from streams.domain import contract, decisions, events, facts, layers, order, story, why

ROOMS = (contract, decisions, events, facts, layers, order)
SHAPES = {
    f"{room.__name__.rpartition('.')[2]}.{name}": shape
    for room in ROOMS
    for name, shape in inspect.getmembers(room, inspect.isclass)
    if issubclass(shape, Struct) and shape.__module__ == room.__name__
}
GROWING = {"order.Order", "order.Payment", "order.Operation"}
"""What a turn copies first and then works on."""
TOLD = [
    *(story.Awaited, story.Piece, story.PaymentStory, story.OperationStory, story.OpenItem, story.Story),
    *(why.Open, why.Ended, why.Why),
]
PLACED = {f"decisions.{name}" for name in ("LedgerEntry", "Said", "Asked", "Money", "Shown", "Standing")}
"""What the law reads off a state, in order. All else of these rooms is filled by name."""
NAMED = ("contract.", "events.", "decisions.")


def blank(name: str) -> Struct:
    """One of the kind, with nothing in it that matters."""
    shape = SHAPES[name]
    return shape(**{field.name: "x" for field in structs.fields(shape) if field.required})


@pytest.mark.parametrize("name", sorted(SHAPES.keys() - GROWING))
def test_what_was_said_or_promised_cannot_be_changed_afterwards(name: str):
    one = blank(name)
    with pytest.raises(AttributeError, match="immutable"):
        setattr(one, structs.fields(type(one))[0].name, "y")


@pytest.mark.parametrize("shape", TOLD)
def test_what_is_told_to_a_person_cannot_be_changed_on_the_way(shape: type[Struct]):
    one = shape(**{field.name: "x" for field in structs.fields(shape)})
    with pytest.raises(AttributeError, match="immutable"):
        setattr(one, structs.fields(shape)[0].name, "y")


@pytest.mark.parametrize("name", [one for one in SHAPES if one.startswith(NAMED) and one not in PLACED])
def test_no_value_can_stand_under_the_wrong_name(name: str):
    """An amount is no fee and a payment's number no order's."""
    with pytest.raises(TypeError, match="positional"):
        SHAPES[name]("x")


SPARSE = {one for one in SHAPES if one.startswith("events.")} - {"events.Raw"} | PLACED - {"decisions.LedgerEntry"}


@pytest.mark.parametrize("name", sorted(SPARSE | {"decisions.Decision"}))
def test_what_was_not_said_is_not_packed(name: str):
    """An optional field that a later release adds does not change the bytes of what was said before, nor their hash."""
    said = to_builtins(blank(name)).keys() - {"type"}
    assert said == {field.encode_name for field in structs.fields(SHAPES[name]) if field.required}


@pytest.mark.parametrize("name", [one for one in SHAPES if one.startswith(("order.", "layers."))])
def test_what_is_stored_is_a_row_and_names_no_field(name: str):
    """It is written at every event, and a field that a later release adds at its end has a default in what is stored."""
    assert isinstance(to_builtins(blank(name)), list)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_collector_never_visits_what_the_law_makes(name: str):
    assert SHAPES[name].__struct_config__.gc is False


def test_every_id_of_every_event_may_come_as_a_number():
    """Connectors of many makers write an order's number as one; what is no id stays what it is."""
    spoken = get_args(events.Command) + get_args(events.Evidence)
    ids = {
        field.encode_name
        for shape in spoken
        for field in msgspec.inspect.type_info(shape).fields
        if "opaque text" in repr(field.type)
    }
    assert ids == events.ID_FIELDS
