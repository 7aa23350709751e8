"""The split leaves no relative of a held-out family in training, and is the same every time."""

import pytest

from core.errors import InputError
from g2p.alphabet import TAGS, folded
from g2p.misaki_data import SHA256, Entry, read
from g2p.training.split import Relatives, Split, alike, parts, pronunciations, stem

EVERY, COUNT = 24, 80


@pytest.fixture(scope="module")
def lists() -> dict[str, dict[str, Entry]]:
    """Every twelfth stem of both lists with all its words, so that families stay whole."""
    return {tag: {w: e for w, e in read(tag).items() if sum(map(ord, stem(folded(w)))) % EVERY == 0} for tag in TAGS}


@pytest.fixture(scope="module")
def split(lists: dict[str, dict[str, Entry]]) -> Split:
    return Split.of(lists, seed=0, count=COUNT)


def leaks(split: Split) -> list[tuple[str, str]]:
    """Held-out word and a training word related to it."""
    relatives = Relatives(split.trained | set(split.word) | set(split.family))
    return [(word, other) for word in split.family for other in relatives.of(word) & split.trained]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("stopping", "stop"),
        ("nationalization", "nation"),
        ("decisions", "dec"),
        ("cats", "cat"),
        ("mystify", "myst"),
        ("photographic", "phot"),
        ("happily", "hap"),
    ],
)
def test_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("decide", "decision"),
        ("horsehair", "horses"),
        ("unhappy", "happiness"),
        ("mystify", "mystical"),
        ("horsehair", "horsewhip"),
        ("swim-suit", "suits"),
        ("swam", "swamp"),
    ],
)
def test_relatives(one: str, other: str) -> None:
    known = {one, other, "horse", "hair", "whip", "swim", "suit", "happy"}
    assert other in Relatives(known).of(one)
    assert one in Relatives(known).of(other)


@pytest.mark.parametrize(("one", "other"), [("horse", "house"), ("bandage", "bandit"), ("cat", "dog"), ("banana", "band")])
def test_strangers(one: str, other: str) -> None:
    assert other not in Relatives({one, other}).of(one)


def test_alike_needs_most_of_the_longer_stem() -> None:
    assert alike("decid", "decis")
    assert not alike("mark", "marl") and not alike("inter", "internet")
    assert "hair" in parts("horsehair", {"horse", "hair"})


def test_nothing_held_out_is_trained_on(split: Split) -> None:
    assert len(split.word) == COUNT and len(split.family) > COUNT / 3
    assert not (set(split.word) | set(split.family)) & split.trained
    assert not set(split.word) & set(split.family)


def test_no_relative_of_a_family_is_left(split: Split) -> None:
    assert leaks(split) == []
    assert split.neither > 0


def test_no_stem_of_a_family_stands_in_a_training_word(split: Split) -> None:
    """The same, by another definition than that of relatives: it sees what the list of affixes lacks."""
    stems = {stem(word) for word in split.family}
    assert min(map(len, stems)) >= 4
    text = "\n" + "\n".join(split.trained) + "\n"
    assert [own for own in stems if "\n" + own in text or own + "\n" in text or (len(own) >= 5 and own in text)] == []


def test_a_leak_is_seen(split: Split) -> None:
    word = next(word for word in split.family if len(word) > 6 and word[-1] not in "s")
    leaky = Split(split.word, split.family, split.training | {"us_silver": {"re" + word: "x"}}, 0)
    assert (word, "re" + word) in leaks(leaky)


def test_the_split_hangs_on_the_seed_alone(lists: dict[str, dict[str, Entry]], split: Split) -> None:
    backwards = {tag: dict(reversed(entries.items())) for tag, entries in lists.items()}
    assert Split.of(backwards, seed=0, count=COUNT) == split
    assert Split.of(lists, seed=1, count=COUNT).word != split.word


def test_acronyms_and_foreign_symbols_are_left_out_and_lower_case_wins() -> None:
    entries: dict[str, Entry] = {"NASA": "nˈæsə", "Polish": "pˈOlɪʃ", "polish": "pˈɑlɪʃ", "a.m.": "ˌAˈɛm", "record": {"DEFAULT": "ɹˈɛkəɹd"},
                                 "odd": "ɒd", "none": {"DEFAULT": None}, "butter": "bˈʌɾəɹ"}  # fmt: skip
    assert pronunciations(entries) == {"polish": "pˈɑlɪʃ", "record": "ɹˈɛkəɹd", "butter": "bˈʌTəɹ"}


def test_lists_other_than_pinned_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read("us_gold", tmp_path)
    (tmp_path / "us_gold.json").write_text("{}")
    with pytest.raises(InputError, match=SHA256["us_gold"][:12]):
        read("us_gold", tmp_path)
    with pytest.raises(InputError, match="no word list 'fr_gold'"):
        read("fr_gold")


@pytest.mark.slow
def test_the_whole_split_has_no_leak() -> None:
    split = Split.draw(seed=0)
    assert len(split.word) == 2500 and len(split.family) > 1400
    assert leaks(split) == []
