"""The network in NumPy against PyTorch: the same answers, and no PyTorch in a process that reads an unknown word."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from g2p.alphabet import ALPHABETS, BRITISH, LETTERS, PADDING, SOUNDS
from g2p.misaki_data import read
from g2p.network import numpy_run
from g2p.neural import NeuralG2P, torch_run
from g2p.rates import error_rates
from g2p.sizes import Config
from g2p.training.start import counterpart, started
from g2p.weights import WEIGHTS_OF, load_arrays, load_model

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "tests" / "data" / "g2p" / "held_out_words.tsv"
ABSENT = "import sys; from g2p import phonemize; found = phonemize({!r}, {!r}).words[0]; print(found.source, 'torch' in sys.modules)"


def sample_words() -> list[str]:
    return [line.split("\t")[1] for line in SAMPLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("dialect", ALPHABETS)
def test_numpy_answers_as_pytorch_does(dialect: str) -> None:
    alphabet, model = ALPHABETS[dialect], load_model(WEIGHTS_OF[dialect])
    drawn = random.Random(0)
    words = sample_words() + ["".join(drawn.choices(LETTERS, k=length)) for length in range(1, 32) for _ in range(4)]
    loaded = NeuralG2P.load(dialect=dialect)
    theirs = NeuralG2P(model, alphabet=alphabet, confidence=loaded.confidence).predict(words)
    ours = loaded.predict(words)
    assert [guess.phonemes for guess in ours] == [guess.phonemes for guess in theirs]
    assert np.allclose([guess.confidence for guess in ours], [guess.confidence for guess in theirs], atol=1e-3)


def test_logits_agree_and_padding_changes_nothing() -> None:
    arrays, config = load_arrays()
    run, reference = numpy_run(arrays, config), torch_run(load_model())
    ids = np.random.default_rng(0).integers(1, 30, size=(5, 9)).astype(np.int32)
    ids[2, 6:] = PADDING
    assert np.abs(run(ids) - reference(ids))[ids != PADDING].max() < 1e-3
    assert np.abs(run(ids)[2, :6] - run(ids[2:3, :6])[0]).max() < 1e-4
    with pytest.raises(KeyError):
        numpy_run({name: array for name, array in arrays.items() if name != "answer.bias"}, config)


@pytest.mark.parametrize(("word", "dialect"), [("blorfkin", "us"), ("blorfkin", "gb")])
def test_an_unknown_word_needs_no_pytorch(word: str, dialect: str) -> None:
    done = subprocess.run([sys.executable, "-c", ABSENT.format(word, dialect)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["neural", "False"]


def test_british_sounds_are_cut_with_their_length() -> None:
    assert BRITISH.cut("nˈɜːs") == ("n", "ˈɜː", "s")
    assert BRITISH.cut("ɡˈQ") == ("ɡ", "ˈQ") and BRITISH.cut("ɡˈO") is None and BRITISH.cut("ˈ") is None
    cut = sum(BRITISH.cut(entry) is not None for entry in read("gb_gold").values() if isinstance(entry, str))
    assert cut > 0.98 * sum(isinstance(entry, str) for entry in read("gb_gold").values())


def test_the_british_model_reads_names_of_no_list() -> None:
    words = {"Blorf": "blˈɔːf", "Starmer": "stˈɑːmə", "Corbyn": "kˈɔːbɪn"}
    guesses = NeuralG2P.load(dialect="gb").predict(list(words))
    assert error_rates([guess.phonemes for guess in guesses], list(words.values())).per < 20


def test_a_model_begun_with_anothers_weights_copies_like_sounds() -> None:
    source = load_model()
    from g2p.model import LetterToSound

    model = started(LetterToSound(Config(sounds=len(BRITISH.sounds))), source, ALPHABETS["us"], BRITISH)
    here, there = BRITISH.ids["ˈɜː"], SOUNDS.index("ˈɜ")
    assert torch.equal(model.answer.weight[here], source.answer.weight[there])
    assert torch.equal(model.blocks[0].taps.weight, source.blocks[0].taps.weight)
    assert counterpart("T", {"t": 3}) is None and counterpart("ˌQ", {"ˌO": 5}) == 5
