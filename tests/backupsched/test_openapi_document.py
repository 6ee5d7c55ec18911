"""The OpenAPI document as such: what its readers take for granted."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from ninja import Schema

from api.root import api

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(api.get_openapi_schema())


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield f"{method.upper()} {path}", operation


def kinds_of(schema: type[Schema]) -> Iterator[type[Schema]]:
    for each in schema.__subclasses__():
        yield each
        yield from kinds_of(each)


def test_it_is_openapi_3_1(document):
    assert document["openapi"].startswith("3.1")


def test_no_two_shapes_share_a_name():
    """In the document the one would be told in the other's place."""
    ours = {each for each in kinds_of(Schema) if each.__module__.startswith(("jobs.", "sources."))}
    names = Counter(each.__name__ for each in ours)
    assert [name for name, count in names.items() if count > 1] == []


def test_every_operation_that_asks_who_it_is_says_how_it_refuses(document):
    for where, operation in operations(document):
        if where == "POST /api/enrol":
            continue
        assert operation["security"], where
        assert {"401", "403", "422", "429", "503"} <= set(operation["responses"]), where
