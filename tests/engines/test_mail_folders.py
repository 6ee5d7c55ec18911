"""The directory of each folder of a mailbox, whatever its server calls it."""

from hypothesis import example, given
from hypothesis import strategies as st

from engines.imap.folders import LONGEST_PATH, Folder, directories, parse
from storage.points.named_files import folded


def test_lines_of_list_are_read_in_every_form() -> None:
    lines = [
        b'(\\HasNoChildren) "/" INBOX', b'() "." "a.b"', b'() NIL "a.b.c"', b'() "/" "say \\"hi\\" \\\\"',
        (b'(\\Marked) "/" {5}', b"a/b\r\n"), b"", b'(\\Noselect) "/" "none"', None, b"nonsense",
    ]  # fmt: skip
    assert [folder.title for folder in parse(lines)] == ["INBOX", "a/b", "a.b.c", "a/b\r\n", 'say "hi" \\']


def test_a_name_is_written_so_that_every_storage_takes_it() -> None:
    for name, directory in (
        (b"INBOX", "INBOX"),
        (b"&ZeVnLIqe-/&AOQ-", "日本語/ä"),
        ("ä".encode(), "ä"),
        (b"../etc", "%2E%2E/etc"),
        (b"/abs", "%~/abs"),
        (b"Cur/new", "%43ur/%6Eew"),
        (b".hidden/dots./end ", "%2Ehidden/dots%2E/end%20"),
        (b"a:b*c\\d|e?\x01", "a%3Ab%2Ac%5Cd%7Ce%3F%01"),
    ):
        [found] = directories([Folder(name, tuple(name.split(b"/")))]).values()
        assert found.partition("~")[0] == directory.partition("~")[0]
    folder = Folder(b"Inbox/2026", (b"Inbox", b"2026"))  # a path is that folder and all below it
    paths = {"INBOX": True, "inbox/2026/": True, "INBOX/20": False, "2026": False}
    assert {each: folder.is_below(each) for each in paths} == paths


@example([[each.encode()] for each in ("\u0390", "\u03aa\u0301")])  # equal in NFC of their lower case only
@example([[each.encode()] for each in ("\u03b0", "\u03ab\u0301")])
@example([[each.encode()] for each in ("\u1fd7", "\u03aa\u0342")])
@given(st.lists(st.lists(st.binary(max_size=130), min_size=1, max_size=8), unique_by=tuple))
def test_no_two_folders_share_a_directory_and_none_leads_out(names: list[list[bytes]]) -> None:
    found = directories([Folder(b"/".join(each), tuple(each)) for each in names])
    assert len({folded(each) for each in found.values()}) == len(found)
    for path in found.values():
        assert len(path.encode()) <= LONGEST_PATH
        assert not {"", ".", "..", "cur", "new", "tmp"} & {each.casefold() for each in path.split("/")}
        assert path.isprintable()
