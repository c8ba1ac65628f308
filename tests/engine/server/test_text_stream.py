import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.server.text_stream import TextStream
from engine.server.tokenizer import ByteTokenizer


def run(ids: list[int], stops: tuple[str, ...] = ()) -> tuple[list[str], bool]:
    stream = TextStream(ByteTokenizer(), stops)
    pieces = []
    for token in ids:
        pieces.append(stream.feed(token))
        if stream.is_stopped:
            return pieces, True
    return [*pieces, stream.finish()], False


def test_a_character_is_sent_when_its_last_byte_is_there() -> None:
    pieces, _ = run(list("aé€😀".encode()))
    assert pieces == ["a", "", "é", "", "", "€", "", "", "", "😀", ""]


def test_broken_bytes_become_replacement_characters_at_last() -> None:
    pieces, _ = run([0xF0, 0x9F])
    assert "".join(pieces) == "\ufffd"


@pytest.mark.parametrize("ids", [[128, 128, 128, 194, 128], [194, 256, 256, 256, 256, 128]])
def test_a_character_that_begins_among_broken_bytes_or_holds_special_tokens_arrives(
    ids: list[int],
) -> None:
    pieces, _ = run(ids)
    assert "".join(pieces).lstrip("\ufffd") == "\x80"


def test_text_ends_just_before_a_stop_string() -> None:
    pieces, stopped = run(list(b"one two END three"), ("END",))
    assert ("".join(pieces), stopped) == ("one two ", True)


def test_a_beginning_of_a_stop_string_is_held_until_it_is_none() -> None:
    pieces, stopped = run(list(b"aENb"), ("END",))
    assert pieces == ["a", "", "", "ENb", ""]
    assert not stopped


def test_the_earliest_of_several_stops_wins() -> None:
    pieces, _ = run(list(b"abcd"), ("d", "bc"))
    assert "".join(pieces) == "a"


def test_special_tokens_have_no_text() -> None:
    pieces, _ = run([104, 256, 105])
    assert "".join(pieces) == "hi"


@given(st.text(max_size=40))
def test_all_text_arrives_and_nothing_else(text: str) -> None:
    pieces, _ = run(list(text.encode()))
    assert "".join(pieces) == text


@given(st.lists(st.integers(0, 258), max_size=40))
def test_any_tokens_give_the_text_of_the_whole_up_to_broken_bytes(ids: list[int]) -> None:
    pieces, _ = run(ids)
    joined = "".join(pieces)
    whole = ByteTokenizer().decode(ids)
    assert joined.replace("\ufffd", "") == whole.replace("\ufffd", "")


@given(st.text("abE", max_size=30), st.lists(st.text("abE", min_size=1, max_size=4), max_size=3))
def test_a_stop_string_is_never_sent(text: str, stops: list[str]) -> None:
    pieces, stopped = run(list(text.encode()), tuple(stops))
    joined = "".join(pieces)
    assert not any(stop in joined for stop in stops)
    assert text.startswith(joined)
    assert stopped == any(stop in text for stop in stops)
