"""The normalizer on its written cases and at its seams: numbers against num2words, offsets, drops, dialects, spaces, kinds."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from bench.g2p_cases import Case, expected_tokens, read_cases, spoken_tokens
from bench.misaki_stand_in import Misaki
from g2p.normalize import analyse, normalize
from g2p.normalize.number_words import cardinal, ordinal, plural, year
from g2p.result import Dialect

UNSEEN: tuple[str, ...] = ()
CASES = [case for case in read_cases() if case.part not in UNSEEN]
KNOWN_MISSES = {"Chanel No. 5 and 7UP"}


def by_category() -> dict[str, list[Case]]:
    grouped = defaultdict(list)
    for case in CASES:
        grouped[case.category].append(case)
    return grouped


@pytest.mark.parametrize(("category", "cases"), by_category().items())
def test_written_cases(category: str, cases: list[Case]) -> None:
    said = [spoken_tokens(normalize(case.text, dialect=case.dialect)) for case in cases]
    judged = [case for case in zip(cases, said, strict=True) if case[0].text not in KNOWN_MISSES]
    assert not [(case.text, tokens) for case, tokens in judged if tokens != expected_tokens(case.spoken)], category


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("500mg twice/day", "five hundred milligrams twice per day"),
        ("He's 6ft 2in tall, 6 ft in the air", "He's six feet two inches tall , six feet in the air"),
        ("a 2in pipe and a 2 in 3 chance", "a two inch pipe and a two in three chance"),
        ("11st 6lb, 12 st 4 lb, the 21st", "eleven stone six pounds , twelve stone four pounds , the twenty first"),
        ("up 3% y/y, 1% Q/Q, 5 m/s", "up three percent year over year , one percent quarter over quarter , five meters per second"),
        ("₹5 crore, ₹2 lakh", "five crore rupees , two lakh rupees"),
        ("in km/h, per kg, 5 kg in mm", "in kilometers per hour , per kilogram , five kilograms in millimeters"),
        ("40° N, 51°30' W", "forty degrees north , fifty-one degrees thirty minutes west"),
        ("Mm, a kg; N is a letter", "Mm , a kg ; [N] is a letter"),
        ("≈3 (≈4), x ≈ 3", "approximately three ( approximately four ) , [X] approximately equals three"),
        ("ZIP 02139-4307, 10-20", "ZIP zero two one three nine , four three zero seven , ten to twenty"),
        ("an A/B test", "an [AB] test"),
        ("Fri.–Sun., 9-5; Mon.-Fri. Closed", "Friday to Sunday , nine to five ; Monday to Friday . Closed"),
        ("a 220-lb. QB", "a two hundred twenty pound [QB]"),
        ("58.3M, 10M users, gate 5B is", "fifty-eight point three million , ten million users , gate five [B] is"),
        ("room 5B houses, a 50-50 split", "room five [B] houses , a fifty fifty split"),
        ("Boeing 747-400, the early '00s", "Boeing seven forty-seven four hundred , the early two thousands"),
        ("Wow :-) ok ;) I love it <3, five <3", "Wow ok I love it , five less than three"),
        ("a 4 × 100 m relay, .NET 8", "a four by one hundred meter relay , dot net eight"),
        ("a 500mg dose", "a five hundred milligram dose"),
        ("3x a week", "three times a week"),
        ("a 5¢ coin", "a five cent coin"),
        ("It costs 5¢.", "It costs five cents."),
        ("a.k.a. Slim", "[AKA] Slim"),
        ("Chaps. 4 and 5", "chapters four and five"),
        ("Ps. 23", "Psalm twenty three"),
        ("Call 1-800-FLOWERS.", "Call one, eight hundred, FLOWERS."),
        ("Malcolm X", "Malcolm [X]"),
        ("Malcolm IV", "Malcolm the fourth"),
        ("pp. xi–xv of vol. ii, p. mix", "pages eleven to fifteen of volume two , [P] . mix"),
        ("the rev. ed., ed. by her; Ref. no. 12", "the revised edition , edited by her ; reference number twelve"),
        ("the no. of days, no. Of 9 cu. in.", "the number of days , no . Of nine cubic inches ."),
        ("Mme. Curie and Mlle Lenormand", "madame Curie and mademoiselle Lenormand"),
        ("Boeing's 787 is late.", "Boeing's seven eighty seven is late."),
    ],
)
def test_classes_found_in_ordinary_text(text: str, spoken: str) -> None:
    assert spoken_tokens(normalize(text)) == expected_tokens(spoken)


def test_there_are_enough_cases_and_misses_are_few() -> None:
    assert len(CASES) >= 400
    assert sum(case.part != "seen" for case in CASES) * 3 >= len(CASES)
    assert len(KNOWN_MISSES) <= 0.02 * len(CASES)
    for text in KNOWN_MISSES:
        case = next(case for case in CASES if case.text == text)
        assert spoken_tokens(normalize(text)) != expected_tokens(case.spoken), "no miss any more: take it out of KNOWN_MISSES"


def test_the_comparison_can_fail() -> None:
    """A wrong reading is wrong in both measures."""
    assert spoken_tokens(normalize("in 1999")) != expected_tokens("in nineteen ninety eight")
    voice = Misaki(british=False)
    assert voice.is_right("I have 7 cats.", "I have seven cats.")
    assert not voice.is_right("I have 7 cats.", "I have eight cats.")


@given(st.integers(0, 10**18))
def test_cardinals_and_ordinals_agree_with_num2words(number: int) -> None:
    def flat(text: str) -> str:
        return text.replace(",", "")

    assert cardinal(number, "gb") == flat(num2words(number))
    assert cardinal(number, "us") == flat(num2words(number)).replace(" and ", " ")
    assert ordinal(number, "gb") == flat(num2words(number, to="ordinal"))


@given(st.integers(1100, 2099).filter(lambda number: not 2000 <= number < 2010))
def test_years_agree_with_num2words(number: int) -> None:
    assert year(number, "gb").replace("-", " ") == num2words(number, to="year").replace("-", " ")


def test_plurals() -> None:
    assert [plural(word) for word in ("nineteen ninety", "two", "six", "eighteen hundred")] == [
        "nineteen nineties",
        "twos",
        "sixes",
        "eighteen hundreds",
    ]


def test_offsets_kinds_and_spaces() -> None:
    text = "Dr. Smith paid $3.50 (FBI)."
    tokens = normalize(text).tokens
    assert [(token.text, text[token.start : token.end], token.kind, token.space) for token in tokens] == [
        ("doctor", "Dr.", "word", True),
        ("Smith", "Smith", "word", True),
        ("paid", "paid", "word", True),
        ("three", "$3.50", "word", True),
        ("dollars", "$3.50", "word", True),
        ("and", "$3.50", "word", True),
        ("fifty", "$3.50", "word", True),
        ("cents", "$3.50", "word", True),
        ("(", "(", "punctuation", False),
        ("FBI", "FBI", "letters", False),
        (")", ")", "punctuation", False),
        (".", ".", "punctuation", False),
    ]


def test_offsets_survive_characters_that_change_length() -> None:
    text = "😀 cafe\u0301 costs ５ €!"
    spans = [(token.text, text[token.start : token.end]) for token in normalize(text).tokens]
    assert spans == [("café", "cafe\u0301"), ("costs", "costs"), ("five", "５ €"), ("euros", "５ €"), ("!", "!")]


@pytest.mark.parametrize(
    ("text", "dropped"),
    [
        ("plain words", {}),
        ("Hi 😀😀 👨‍👩‍👧", {"emoji": 2}),
        ("**bold** <b>x</b>", {"markup": 4}),
        ("Привет мир", {"script Cyrillic": 9}),
        ("a\ud800b", {"lone surrogate": 1}),
        ("a\x00b", {"control character": 1}),
        ("zero\u200bwidth", {"invisible character": 1}),
        ("https://a.org", {"url scheme": 1}),
        ("word¹", {"footnote mark": 1}),
        ("done ✓ ™", {"emoji": 1, "symbol": 1}),
        ("x\u0302y", {"combining mark": 1}),
    ],
)
def test_what_is_left_out_is_counted(text: str, dropped: dict[str, int]) -> None:
    assert normalize(text).dropped == dropped


def test_drops_have_offsets() -> None:
    text = "one <b>two</b> 😀"
    _, drops = analyse(text)
    assert [(text[start:end], why) for start, end, why in drops] == [("<b>", "markup"), ("</b>", "markup"), ("😀", "emoji")]


@pytest.mark.parametrize(
    ("dialect", "spoken"),
    [
        ("us", "march fourth , twenty twenty six one hundred one kilometers"),
        ("gb", "the third of april , twenty twenty six one hundred and one kilometres"),
    ],
)
def test_dialects(dialect: Dialect, spoken: str) -> None:
    assert " ".join(token.text for token in normalize("3/4/2026 101 km", dialect=dialect).tokens).lower() == spoken


def test_letters_keep_their_ending() -> None:
    assert [(token.text, token.kind) for token in normalize("CDs and the FBI's").tokens] == [
        ("CDs", "letters"),
        ("and", "word"),
        ("the", "word"),
        ("FBI's", "letters"),
    ]


def test_hyphenated_plain_words_stay_one_token() -> None:
    assert [token.text for token in normalize("a state-of-the-art Blu-ray").tokens] == ["a", "state-of-the-art", "Blu-ray"]


@pytest.mark.parametrize(
    "text", ["10–15km", "5pm", "he/she", "No.5", "4x6", "$5/month", "B2B", "getName", "1e5kg", "50%", "AT&T", "a@b.co", "v1.2", "x=5"]
)
def test_spoken_words_that_touch_are_said_apart(text: str) -> None:
    tokens = normalize(f"{text} end").tokens
    assert len(tokens) > 2
    assert all(token.space for token in tokens[:-1])
    assert not tokens[-1].space


def test_space_is_the_texts_own_beside_marks() -> None:
    assert [token.space for token in normalize("a (b), c—d").tokens] == [True, False, False, False, True, False, False, False]
    assert [(token.text, token.space) for token in normalize("120/80.").tokens[-2:]] == [("eighty", False), (".", False)]
    assert [(token.text, token.space) for token in normalize("a 1/2.").tokens[-2:]] == [("half", False), (".", False)]
