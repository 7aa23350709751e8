"""The metrics of words, speaker, predicted quality and the worst 60 ms, and MCD as the literature has it: entries of the registry.

names = [metric.name for metric in HEARING]
"""

from functools import partial

from core.errors import InputError
from eval.metrics.local import level_sway_db, local_level_db, local_pitch_cents, local_spectrum_db
from eval.metrics.metric import HIGHER, LOWER, Metric
from eval.metrics.perceptual import distillmos_loss, dnsmos_loss, pesq_worst_position, speaker_distance
from eval.metrics.spectral import literature_mcd_db
from eval.metrics.trial import Trial
from eval.metrics.words import words_of
from g2p.rates import edit_distance

_WHOLE = "whole clip, pauses included"
_AGAIN = "a short clip is said again until the model's window is full"
_WORDS = "the recognizer's own"


def word_errors_added(trial: Trial) -> float:
    """Words that the recognizer gets wrong in the test, less those it gets wrong in the reference, against the text."""
    if trial.text is None:
        raise InputError("this metric needs what is said: Trial(reference, test, text=...)")
    wanted = words_of(trial.text)
    return float(edit_distance(trial.heard.words, wanted) - edit_distance(trial.baseline.heard.words, wanted))


def words_changed(trial: Trial) -> float:
    """Word edits between what the recognizer hears in the test and what it hears in the reference."""
    return float(edit_distance(trial.heard.words, trial.baseline.heard.words))


def _literature(coefficients: int) -> Metric:
    return Metric(
        f"mcd{coefficients}_db",
        f"MCD, literature, {coefficients}",
        "dB",
        LOWER,
        0.0,
        formula=f"10 sqrt(2) / ln 10 * norm(c - c') over c1..c{coefficients} of librosa's mel cepstra (80 bands), mean over frames",
        silence="none: every frame, no floor",
        source="Kubichek 1993; librosa",
        limits="pauses weigh like speech: noise nobody hears there counts as in a vowel",
        function=partial(literature_mcd_db, coefficients=coefficients),
    )


HEARING = (
    Metric(
        "pesq_worst_position",
        "PESQ, worst position",
        "MOS-LQO",
        HIGHER,
        4.6439,
        formula="as PESQ, the lowest of the three positions",
        silence="P.862's own utterance detection",
        source="package pesq 0.0.4",
        limits="holds PESQ's cliffs: one position of 84 fell by 0.37 at 54 dB SNR",
        function=pesq_worst_position,
    ),
    Metric(
        "local_spectrum_db",
        "worst 60 ms, spectrum",
        "dB",
        LOWER,
        0.0,
        formula="RMS over 40 mel bands of the level difference of 60 ms; less the largest of other seeds there (at most 3)",
        silence="each band floored 30 dB below its mean",
        source="definition; librosa's mel filters",
        limits="a phone replaced by its neighbour in sound stays below 4 dB",
        function=local_spectrum_db,
        needs_other_seed=True,
    ),
    Metric(
        "local_level_db",
        "worst 60 ms, level",
        "dB",
        LOWER,
        0.0,
        formula="magnitude of the level difference of 60 ms; less the largest of other seeds there (at most 3)",
        silence="floored 25 dB below the mean power",
        source="definition",
        limits="blind to what keeps the level",
        function=local_level_db,
        needs_other_seed=True,
    ),
    Metric(
        "level_sway_db",
        "level sway",
        "dB",
        LOWER,
        0.0,
        formula="standard deviation over 60 ms windows of the level difference",
        silence="windows within 25 dB of the reference's loudest; floored 30 dB below the mean power",
        source="definition",
        limits="blind to a steady gain and to what keeps the level",
        function=level_sway_db,
    ),
    Metric(
        "local_pitch_cents",
        "worst 60 ms, pitch",
        "cents",
        LOWER,
        0.0,
        formula="mean magnitude of 1200 log2(f_t / f_r) of 60 ms (lost: 316); less the largest of other seeds there (at most 50)",
        silence="only where reference and other seeds are clearly voiced at one pitch",
        source="definition",
        limits="the tracker's frame is 50 ms long: what is shorter is smeared",
        function=local_pitch_cents,
        needs_other_seed=True,
    ),
    Metric(
        "word_errors_added",
        "word errors added",
        "words",
        LOWER,
        0.0,
        formula="word edits from the text to what the recognizer hears in the test, less the same of the reference; a clip",
        silence=_WORDS,
        source="pocketsphinx 5, en-us; text by g2p.normalize",
        limits="a weak recognizer: a quarter of the words are wrong in the reference already",
        function=word_errors_added,
        needs_text=True,
    ),
    Metric(
        "words_changed",
        "words changed",
        "words",
        LOWER,
        0.0,
        formula="word edits between what the recognizer hears in the test and in the reference; a clip",
        silence=_WORDS,
        source="pocketsphinx 5, en-us",
        limits="another seed changes words too: that is its scale",
        function=words_changed,
    ),
    Metric(
        "speaker_distance",
        "speaker distance",
        "%",
        LOWER,
        0.0,
        formula="100 (1 - cosine) of resemblyzer's voiceprints of test and reference",
        silence=_AGAIN,
        source="Wan et al. 2018 (GE2E); resemblyzer 0.1.4, weights of the package",
        limits="trained to tell people apart: a hoarse voice is the same person",
        function=speaker_distance,
    ),
    Metric(
        "dnsmos_loss",
        "DNSMOS loss",
        "MOS",
        LOWER,
        0.0,
        formula="overall DNSMOS P.835 of the reference less that of the test",
        silence=_AGAIN,
        source="Reddy et al. 2022; speechmos 0.0.1.1, weights of the package",
        limits="trained on noise suppressors at 16 kHz, never on this model",
        function=dnsmos_loss,
    ),
    Metric(
        "distillmos_loss",
        "DistillMOS loss",
        "MOS",
        LOWER,
        0.0,
        formula="DistillMOS of the reference less that of the test",
        silence=_AGAIN,
        source="Stahl and Gamper 2025; distillmos 0.9.1, weights of the package",
        limits="16 kHz; trained on transmitted and processed speech",
        function=distillmos_loss,
    ),
    _literature(13),
    _literature(24),
)
