"""Orders to a child process: its answers, its exceptions, and what comes of one that does not keep to the protocol."""

import dataclasses
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from external.processes import orders
from external.processes.orders import NoAnswer, Order
from tests.external.obeying import PROGRAM, Damaged, Unavailable

SECRET = "s3cr3t word"


def given(do: str, *, silent_for: float = 30.0, stop: Event | None = None, kept: Any = None, **facts: Any) -> Any:
    order = Order(PROGRAM, do, facts, {"umask": 0o027}, secrets=[SECRET])
    return orders.give(order, stop or Event(), silent_for=silent_for, kept=kept)


def test_an_order_is_answered_and_what_is_said_on_the_way_is_passed_on() -> None:
    said: list[Any] = []
    order = Order(PROGRAM, "echo", {"text": SECRET, "number": 1}, {"umask": 0o027}, take=said.append)
    found = orders.give(order, Event(), silent_for=30.0)
    assert SECRET not in found.pop("argv")
    assert (found, said) == ({"text": SECRET, "number": 1, "umask": 0o027}, [{"on the way": 1}])
    assert [given("kept", kept=each) for each in (lambda facts: facts["point"] == "p", lambda facts: False, None)] == [
        True, False, False,
    ]  # fmt: skip


def test_a_set_is_a_list_in_an_order() -> None:
    found = given("echo", text=frozenset({"b", "a"}), number=set(), at=Path("/a"))
    assert (found["text"], found["number"], found["at"]) == (["a", "b"], [], "/a")


def test_an_exception_with_a_word_is_raised_again_and_no_text_has_a_secret() -> None:
    for how in ("damaged", "worse"):
        with pytest.raises(Damaged, match=r"^it holds \*\*\*$"):
            given("fail", how=how, text=f"it holds {SECRET}")
    with pytest.raises(Unavailable) as away:
        given("away", text=SECRET)
    assert away.value.args == (3, "***")
    with pytest.raises(NoAnswer, match=r"^RuntimeError: it holds \*\*\*$") as other:
        given("fail", how="other", text=f"it holds {SECRET}")
    assert other.value.ended.exit_code == 1


def test_an_order_or_an_exception_of_another_version_is_named() -> None:
    with pytest.raises(NoAnswer, match=r"knows the order 'unheard' differently .* restart this process"):
        given("unheard")
    program = dataclasses.replace(PROGRAM, raises={})
    with pytest.raises(NoAnswer, match=r"knows the order 'away' differently .*no word 'away'.* restart this process"):
        orders.give(Order(program, "away", {"text": ""}), Event(), silent_for=30.0)
    for do, facts, terms in (
        ("die", {"more": 1}, {}),
        ("fail", {"how": "damaged"}, {}),
        ("write", {"letter": {"text": "", "more": 1}}, {}),
        ("write", {"letter": {}}, {}),
        ("kept", {}, {"more": 1}),
    ):
        with pytest.raises(
            NoAnswer, match=rf"knows the order '{do}' differently .*(more|text)'\).* restart this process"
        ):
            orders.give(Order(PROGRAM, do, facts, terms), Event(), silent_for=30.0)
    with pytest.raises(NoAnswer, match=r"^TypeError: "):
        given("fail", how=[], text="unhashable")


def test_a_child_that_dies_hangs_or_is_stopped_gives_no_answer() -> None:
    with pytest.raises(NoAnswer) as died:
        given("die")
    assert (died.value.ended.exit_code, died.value.is_silent, died.value.is_stopped) == (9, False, False)
    with pytest.raises(NoAnswer) as hung:
        given("hang", silent_for=1.0)
    assert hung.value.is_silent
    stop = Event()
    order = Order(PROGRAM, "flood", {"line": "", "first": {"begun": True}}, take=lambda line: stop.set())
    with pytest.raises(NoAnswer) as stopped:
        orders.give(order, stop, silent_for=30.0)
    assert stopped.value.is_stopped


def test_what_is_no_line_of_the_protocol_is_dropped() -> None:
    assert given("chatter") == {"done": True}


@pytest.mark.parametrize("line", ["x", "no JSON\n", "[1]\n"])
def test_a_child_that_prints_without_end_is_as_silent_as_one_that_prints_nothing(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "LONGEST_LINE", 1_000)
    with pytest.raises(NoAnswer) as flooded:
        given("flood", silent_for=1.0, line=line)
    assert flooded.value.is_silent
    assert sum(map(len, flooded.value.ended.last_lines)) <= 50 * 1_000
    order = Order(PROGRAM, "flood", {})
    for number in range(3):
        order.on_line(f'{{"answer": {number}}}')
    assert (order.answer(flooded.value.ended), order.signs) == (0, 1), "what comes after the answer is dropped, too"
