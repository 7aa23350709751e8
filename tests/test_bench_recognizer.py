"""Word error rates by level and by voice, and the paired interval: figures small enough to check by hand."""

import argparse

import pytest

from bench import recognizer
from bench.recognizer import Count, by_voice, difference_interval, rate


def counts(*errors: int) -> list[Count]:
    """Ten words a sentence; two voices in turn."""
    return [Count(("af_heart", "am_adam")[i % 2], "torch", wrong, 10, "") for i, wrong in enumerate(errors)]


def test_rates() -> None:
    found = counts(1, 0, 2, 0)
    assert rate(found) == 0.075
    assert by_voice(found) == {"af_heart": 0.15, "am_adam": 0.0}


def test_pairs_are_compared() -> None:
    assert difference_interval(counts(1, 0, 2, 0), counts(1, 0, 2, 0)) == (0.0, 0.0)
    low, high = difference_interval(counts(*[0] * 40), counts(*[1] * 40))
    assert low == high == pytest.approx(0.1)
    low, high = difference_interval(counts(*[0, 1] * 20), counts(*[1, 0] * 20))
    assert low < 0 < high


def test_american_voices_unless_others_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Voices:
        voices = ("af_heart", "bf_emma", "am_adam", "bm_george")

        def voice(self, name: str) -> str:
            asked.append(name)
            raise StopIteration

    class Speaker:
        def speak(self, _: str, voice: str, __: object) -> list[object]:
            raise AssertionError(voice)

    asked: list[str] = []
    monkeypatch.setattr(recognizer, "pipelines", lambda *_: [("torch", Speaker())])
    for named, expected in ((None, "af_heart"), (("bf_emma",), "bf_emma")):
        given = argparse.Namespace(voices=named, levels=("torch",), layout="padded", build=None, seed=0)
        with pytest.raises(StopIteration):
            recognizer.listened(Voices(), given, ["Hello."])  # type: ignore[arg-type]
        assert asked.pop() == expected
    Voices.voices = ("bf_emma", "am_adam")  # the first that is American
    with pytest.raises(StopIteration):
        recognizer.listened(Voices(), argparse.Namespace(voices=None, levels=("torch",), layout="padded", build=None, seed=0), ["Hello."])  # type: ignore[arg-type]
    assert asked == ["am_adam"]
