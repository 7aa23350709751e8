"""A model of one dialect begun with another's weights: the letters and blocks as they are, answers of like sounds copied.

    model = started(LetterToSound(config), load_model(), AMERICAN, BRITISH)
    split = british_split(seed=0)

A thousand steps then do what takes seven thousand from nothing. The American model was trained without the words at the head of the split's
hash order (they are its `word` list, or out of it with a family), so the British gold words among those are new to both: the held-out list.
"""

from collections.abc import Mapping

import torch

from g2p.alphabet import BRITISH, FRAMES, PRIMARY, SECONDARY, Alphabet
from g2p.misaki_data import read
from g2p.model import LetterToSound
from g2p.training.split import WORDS_HELD_OUT, Split, drawn, pronunciations, testable

COUNTERPART = {"iː": "i", "uː": "u", "ɑː": "ɑ", "ɔː": "ɔ", "ɜː": "ɜ", "ɛː": "ɛ", "əː": "ə", "Q": "O", "a": "æ", "ɒ": "ɑ"}


def counterpart(sound: str, known: Mapping[str, int]) -> int | None:
    """Place of the sound that a new one begins as; None where there is none."""
    mark = sound[:1] if sound[:1] in (PRIMARY, SECONDARY) else ""
    bare = sound.removeprefix(mark)
    return known.get(sound, known.get(mark + COUNTERPART.get(bare, bare)))


@torch.no_grad()
def started(model: LetterToSound, source: LetterToSound, theirs: Alphabet, ours: Alphabet) -> LetterToSound:
    """`model` with the weights of `source`; answers [2 * sounds, C] and condition [C, 2 * sounds] by sound."""
    own = model.state_dict()
    for name, array in source.state_dict().items():
        if own[name].shape == array.shape:
            own[name].copy_(array)
    for frame in range(FRAMES):
        for place, sound in enumerate(ours.sounds):
            like = counterpart(sound, theirs.ids)
            if like is not None:
                here, there = frame * len(ours.sounds) + place, frame * len(theirs.sounds) + like
                own["answer.weight"][here] = source.answer.weight[there]
                own["answer.bias"][here] = source.answer.bias[there]
                own["condition.weight"][:, here] = source.condition.weight[:, there]
    own["condition.bias"].copy_(source.condition.bias)
    return model


def british_split(seed: int) -> Split:
    """British gold words the American model never saw, and both British lists without them, by tag."""
    entries = read("us_gold")
    unseen = set(drawn(testable(entries, pronunciations(entries)), seed, "word")[:WORDS_HELD_OUT])
    gold = read(BRITISH.tags[0])
    said = pronunciations(gold, BRITISH)
    held_out = {word: phonemes for word, phonemes in sorted(testable(gold, said).items()) if word in unseen}
    training = {tag: {w: p for w, p in pronunciations(read(tag), BRITISH).items() if w not in unseen} for tag in BRITISH.tags}
    return Split(word=held_out, family={}, training=training, neither=0)
