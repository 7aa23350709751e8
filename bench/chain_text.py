"""The text of bench.chain: the demo corpus' 48 frozen sentences, over and over, to so many words."""

from core.corpus import calibration, heldout


def text_of(words: int) -> str:
    """So many words of the frozen sentences, the last sentence cut where the count is full."""
    sentences = [utterance.text for utterance in (*heldout(), *calibration())]
    found = [word for sentence in sentences for word in sentence.split()]
    repeated = (found * (words // len(found) + 1))[:words]
    return " ".join(repeated)
