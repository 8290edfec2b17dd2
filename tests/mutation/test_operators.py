"""The operators of our own make the mutants that they promise, and no table of the law is beyond them."""

from __future__ import annotations

import pytest

cosmic_ray = pytest.importorskip(
    "cosmic_ray.mutating", reason="cosmic-ray is not installed; `make mutants` installs it"
)
operators = pytest.importorskip("tests.mutation.operators")
EXAMPLES = [(name, example) for name, one in operators.Operators.ALL.items() for example in one.examples()]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_an_operator_does_what_its_example_shows(name: str, example: object):
    made = cosmic_ray.mutate_code(example.pre_mutation_code, operators.Operators()[name](), example.occurrence)
    assert made == example.post_mutation_code
