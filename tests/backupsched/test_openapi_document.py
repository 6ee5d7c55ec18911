"""The OpenAPI document as such: what its readers take for granted."""

from collections import Counter
from collections.abc import Iterator

from pydantic import BaseModel

from api.root import api
from tests.product import PACKAGES


def kinds_of(schema: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in schema.__subclasses__():
        yield each
        yield from kinds_of(each)


def test_no_two_shapes_share_a_name():
    """Each name once: in the document the one would replace the other."""
    names = Counter(each.__name__ for each in set(kinds_of(BaseModel)) if each.__module__.split(".")[0] in PACKAGES)
    assert len(names) > 50
    assert [name for name, count in names.items() if count > 1] == []


def test_it_is_openapi_3_1_and_every_operation_that_asks_who_it_is_describes_its_refusals():
    document = api.get_openapi_schema()
    assert document["openapi"].startswith("3.1")
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in {"get", "post", "patch", "delete"}
            if path != "/api/enrol":
                assert operation["security"], path
                assert {"401", "403", "422", "429", "503"} <= set(operation["responses"]), path
