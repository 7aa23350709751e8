"""A model of one dialect begun with another's weights: the letters and blocks as they are, answers of like sounds copied.

    model = started(LetterToSound(config), load_model(), AMERICAN, BRITISH)
    split = british_split(seed=0)
    split = names_split(seed=0)

A thousand steps then do what takes seven thousand from nothing. The American model was trained without the words at the head of the split's
hash order (they are its `word` list, or out of it with a family), so the British gold words among those are new to both: the held-out list.
`names_split` is the American split with CMUdict as a third list, for the same model trained on; what was held out stays so.
"""

from collections.abc import Callable, Mapping

import torch

from g2p.alphabet import AMERICAN, BRITISH, FRAMES, PRIMARY, SECONDARY, Alphabet
from g2p.lists import CMUDICT, ListFile
from g2p.misaki_data import read
from g2p.model import LetterToSound
from g2p.result import GB, US, Dialect
from g2p.training.split import MAX_RELATIVES, WORDS_HELD_OUT, Relatives, Split, drawn, pronunciations, stem, testable, with_stem

NAMES_HELD_OUT, CMUDICT_TAG = 1500, "cmudict"
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


def names_split(seed: int) -> Split:
    """The American split with CMUdict's words beside misaki's, and `names`: words of CMUdict alone, held out with their relatives there."""
    split = Split.draw(seed)
    listed = {word for tag in AMERICAN.tags for word in pronunciations(read(tag))}
    said = {
        word: phonemes for word, phonemes in pronunciations(dict(ListFile(CMUDICT))).items() if word in split.trained or word not in listed
    }
    relatives = Relatives(listed | set(said))
    near = set().union(*(relatives.of(word) for word in split.family)) | with_stem(said, {stem(word) for word in split.family})
    held: dict[str, str] = {}
    for word in drawn((word for word in said if word not in listed and word not in near and len(word) >= 3), seed, "names"):
        own = relatives.of(word)
        if len(own) <= MAX_RELATIVES:
            held[word] = said[word]
            near |= own
        if len(held) >= NAMES_HELD_OUT:
            break
    training = split.training | {CMUDICT_TAG: {word: phonemes for word, phonemes in said.items() if word not in near}}
    return Split(split.word, split.family, training, split.neither, held)


SPLIT_OF: Mapping[Dialect, Callable[[int], Split]] = {US: names_split, GB: british_split}
