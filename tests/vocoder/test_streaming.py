"""The streaming layout: exact where its statistics are, the same samples at any cut, a predictor
that is refused where it does not fit.

python -m pytest tests/vocoder/test_streaming.py
"""

import io
import wave
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8.cache import CONFIG, DATA, WEIGHTS_SHA256
from kokoro_ane.core.layers import NORM_EPSILON
from kokoro_ane.pipeline import speaking
from kokoro_ane.pipeline.audio import CEILING, StreamFinish, finished
from kokoro_ane.pipeline.speak import main as speak
from kokoro_ane.pipeline.synthesis import SynthesisStats
from kokoro_ane.quantize.fits import quantize_in_parts, quantize_symmetric
from kokoro_ane.quantize.stored_forms import store
from kokoro_ane.runtimes.torch_runtime import StreamingBackend
from kokoro_ane.speech.speech import check_speech
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import FIELDS, SPECTRUM_ROWS, pack_utterance
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.streaming.norm_statistics import (
    load_predictor,
    require_predictor,
    save_predictor,
)
from kokoro_ane.vocoder.streaming.streaming_functions import DecoderFunction, HiddenStatistics
from kokoro_ane.vocoder.streaming.streaming_layers import PhaseConv, PhaseUp
from kokoro_ane.vocoder.streaming.streaming_model import Folding, list_stage_norms, read_bias
from kokoro_ane.vocoder.streaming.streaming_package import HALO, SIZES, cut_windows
from tests.commands import printed
from tests.demo_voice import DEMO_VOICE
from training import fit_statistics
from training.fit_statistics import Teacher, hold_vowel
from training.fit_statistics import main as fit
from training.taught_lines import ALTERATIONS, WORDS, TaughtLine, draw_lines

TEXT = "Hello from a stream. It is said in windows."


@pytest.fixture(scope="module")
def checkpoint():
    return open_checkpoint(str(DEMO_VOICE))


@pytest.fixture(scope="module")
def vocoder(checkpoint):
    return Vocoder.from_checkpoint(checkpoint)


@pytest.fixture(scope="module")
def speech(checkpoint):
    return check_speech(checkpoint, 90)


@pytest.fixture(scope="module")
def predictor(checkpoint):
    return require_predictor(checkpoint)


@pytest.fixture(scope="module")
def measured(vocoder, speech):
    """The reference's samples, and what the norms of its second stage measured: means, then log
    variances.
    """
    seen = {}

    def note(norm, arguments):
        variance, mean = torch.var_mean(arguments[0].double(), dim=3, unbiased=False)
        seen[id(norm)] = mean.flatten(), torch.log(variance + NORM_EPSILON).flatten()

    norms = list_stage_norms(vocoder.generator, 1)
    hooks = [norm.norm.register_forward_pre_hook(note) for norm in norms]
    samples = render_reference(vocoder, speech)
    for hook in hooks:
        hook.remove()
    return (
        samples,
        torch.cat([seen[id(norm.norm)][part] for part in (0, 1) for norm in norms]).numpy(),
    )


def constant_predictor(predictor, statistics):
    """One that says this whatever it is asked."""
    return replace(
        predictor, outer=np.zeros_like(predictor.outer), bias=statistics.astype(np.float32)
    )


def test_told_what_the_norms_measure_it_is_the_vocoder(
    vocoder,
    checkpoint,
    speech,
    predictor,
    measured,
):
    """And the nearer it is told, the nearer it is: exactly, as predicted, the average of all
    speech.
    """
    reference, statistics = measured
    exact, predicted, average = (
        snr_db(
            reference,
            StreamingBackend(vocoder, one, measured=0).render(speech),
        )
        for one in (
            constant_predictor(predictor, statistics),
            predictor,
            constant_predictor(predictor, predictor.bias),
        )
    )
    assert exact > 100
    assert exact > predicted + 50
    assert predicted > average + 2
    # 2 s: measured, whatever is told
    short = StreamingBackend(vocoder, constant_predictor(predictor, predictor.bias))
    assert snr_db(reference, short.render(speech)) > 100


def test_the_predicted_statistics_are_the_measured_ones_within_the_error_that_the_file_tells(
    vocoder,
    speech,
    predictor,
    measured,
):
    folding = Folding.from_vocoder(vocoder, predictor.centres)
    decoder, seen = DecoderFunction(vocoder, predictor, folding).eval(), []
    # what the predictor is given, and what it gives
    for module, place in ((decoder.hidden.statistics, 0), (decoder.outer, 1)):
        module.register_forward_hook(
            lambda _, arguments, made, place=place: seen.append(
                (arguments[0], made)[place].flatten().double().numpy()
            )
        )
    with torch.no_grad():
        features = torch.from_numpy(pack_utterance(speech, speech.frames))
        nothing = torch.zeros(1, len(predictor.bias), 1, 1)  # what the voice adds
        decoder(features, speech.style[..., None, None], nothing)
    inputs, product = seen
    prediction = product + predictor.bias
    assert snr_db(predictor(inputs[None])[0], prediction) > 90
    log_variances = np.split(prediction - measured[1], 2)[1]
    # one sentence of 2 s; the file's are longer
    assert np.sqrt(np.square(log_variances).mean()) < 4 * predictor.fitted["errors"]["all"]


def test_two_parts_of_eight_bits_predict_as_floats_do_and_one_does_not(predictor):
    """At the sentences that the predictor was fitted to, which its landmarks tell."""
    channels = len(predictor.bias) // 2
    # a mean's error counts in its channel's deviations
    deviations = np.concatenate([np.exp(predictor.bias[channels:] / 2), np.ones(channels)])
    scaled = predictor.landmarks @ predictor.axes  # [m, D]
    inputs = torch.from_numpy((scaled / predictor.scale + predictor.mean)[:, :, None, None])

    def predict(split):
        hidden = HiddenStatistics(predictor)
        for name in ("landmarks", "hidden") if split else ():
            store(hidden, split(hidden.get_buffer(name).numpy()), name)
        with torch.no_grad():
            results = torch.cat([hidden(one[None]) for one in inputs]).flatten(1).numpy()
        return results.astype(np.float64) @ predictor.outer.T / deviations

    def quantize_rows(matrix):
        return quantize_symmetric(matrix, 8, matrix.shape[1])

    exact = predict(None)
    parts, rows = (
        np.sqrt(np.square(predict(split) - exact).mean())
        for split in (quantize_in_parts, quantize_rows)
    )
    # a tenth of the predictor's own error makes it half a hundredth larger
    assert parts < 0.1 * predictor.fitted["errors"]["all"]
    assert rows > 20 * parts


def test_any_cut_gives_the_same_samples(vocoder, speech, predictor):
    def pieces(*sizes):
        backend = StreamingBackend(vocoder, predictor, measured=0, sizes=sizes)
        style = speech.style[:, :, None, None]
        statistics = torch.zeros(1, backend.rows, 1, 1)
        return list(backend.render_pieces(backend.pack(speech), style, statistics, speech.frames))

    whole, *cuts = pieces(90), pieces(20, 40), pieces(16, 33)
    assert [len(cut) for cut in cuts] == [3, 4]
    for cut in cuts:
        assert snr_db(whole[0].numpy(), torch.cat(cut).numpy()) > 100
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kokoro_ane.vocoder.streaming.streaming_package.HALO", 0)
        assert snr_db(whole[0].numpy(), torch.cat(pieces(16, 33)).numpy()) < 90


@given(st.integers(SIZES[0], 3000), st.booleans(), st.booleans())
def test_windows_cover_the_utterance_once_with_halo_at_every_inner_edge(frames, early, any_length):
    cut = cut_windows(frames, SIZES, early, any_length)
    assert [cut[0].begin, cut[-1].end] == [0, frames]
    assert all(a.end == b.begin for a, b in zip(cut, cut[1:], strict=False))
    assert cut[0].frames == (SIZES[0] if early else max(s for s in SIZES if s <= frames))
    fixed = cut[:-1] if any_length else cut
    assert {window.frames for window in fixed} <= set(SIZES)
    for window in cut:
        stop = window.start + window.frames
        assert 0 <= window.start <= window.begin < window.end <= stop <= frames
        assert window.start == 0 or window.begin - window.start >= HALO
        assert stop == frames or stop - window.end >= HALO
    # no sample of the last window is computed twice but its halo
    assert not any_length or cut[-1].begin - cut[-1].start <= HALO


def test_the_first_stage_reads_six_columns_as_rows(vocoder, checkpoint, speech):
    """And the second stage's upsampler gives six phases as channels: the same numbers."""
    generator, frames = vocoder.generator, speech.frames
    low, up = generator.noise_convs[0], generator.ups[1]
    rows = torch.from_numpy(pack_utterance(speech, frames + 7)[:, -SPECTRUM_ROWS:])
    steps = rows.reshape(1, 22 * 6, 1, -1)[..., : 20 * frames + 1]
    with torch.no_grad():
        phases = PhaseConv(low, read_bias(low))(steps)
        assert snr_db(low(speech.spectrum[:, :, None]).numpy(), phases.numpy()) > 110
        x = torch.randn(1, up.in_channels, 1, 30, generator=torch.Generator().manual_seed(0))
        columns = up(x)[0, :, 0] - up.bias[:, None]  # [C, 180]
        # [6, C, 30], phases first
        channels = PhaseUp(up, 1.0)(x).reshape(6, up.out_channels, 30)
        assert snr_db(columns.numpy(), channels.permute(1, 2, 0).flatten(1).numpy()) > 110


def test_windows_of_nothing_but_halo_are_refused():
    with pytest.raises(InputError, match="4 are spoiled by edges"):
        cut_windows(100, (2 * HALO, 24), early=False)


def test_a_predictor_is_kept_and_one_of_another_architecture_has_none(
    checkpoint, predictor, tmp_path
):
    path = tmp_path / "p.npz"
    save_predictor(predictor, path)
    assert load_predictor(path).sha256 == predictor.sha256
    # the demo voice's own is found by the hash of its weights; other weights of it have none
    with pytest.raises(InputError, match=r"is not of Kokoro-82M's architecture.*--layout padded"):
        require_predictor(replace(checkpoint, sha256="0" * 64))


def test_weights_of_kokoros_architecture_share_one_predictor(checkpoint):
    kokoro = replace(checkpoint, config=KokoroConfig.load(DATA / CONFIG), sha256="0" * 64)
    assert require_predictor(kokoro).checkpoint == WEIGHTS_SHA256


def test_a_stream_is_heard_window_by_window_and_holds_what_a_file_holds(
    tmp_path, capfdbinary, monkeypatch
):
    heard, real = [], SynthesisStats.heard

    def noted(stats, samples):
        heard.append(samples)
        real(stats, samples)

    monkeypatch.setattr(SynthesisStats, "heard", noted)
    monkeypatch.setattr(
        "kokoro_ane.runtimes.torch_runtime.StreamingBackend.__init__.__defaults__", (0,)
    )
    speaking._open.cache_clear()  # a model that another test opened measures this sentence
    common = [TEXT, *f"--checkpoint {DEMO_VOICE} --runtime torch --quiet".split()]
    assert speak([*common, "--stream", "pcm"]) == 0
    streamed = np.frombuffer(capfdbinary.readouterr().out, "<i2").astype(np.float64)
    windows_heard = heard.copy()
    assert speak([*common, "-o", str(tmp_path / "a.wav")]) == 0
    with wave.open(io.BytesIO((tmp_path / "a.wav").read_bytes())) as stored:
        recording = np.frombuffer(stored.readframes(stored.getnframes()), "<i2").astype(np.float64)
    assert len(windows_heard) > 4
    assert sum(windows_heard) == len(streamed) == len(recording)
    assert np.abs(streamed - recording).max() <= 2


def test_pieces_are_finished_as_a_chunk_is_and_never_beyond_full_scale():
    noise = np.random.default_rng(0).normal(size=5000).astype(np.float32) * 0.2
    finish = StreamFinish(len(noise))
    joined = np.concatenate([finish(piece) for piece in np.split(noise, (50, 90, 2000, 4930))])
    assert np.array_equal(joined, finished(noise)[0])
    assert finish.gain == 1.0
    noise[3000] = 3.0
    finish = StreamFinish(len(noise))
    joined = np.concatenate([finish(piece) for piece in np.split(noise, (1000, 2500, 4000))])
    assert np.abs(joined).max() <= CEILING
    assert finish.gain == pytest.approx(CEILING / 3)
    assert joined[500] == noise[500]


def test_what_another_process_speaks_is_waited_for(tmp_path, monkeypatch):
    order, other = list[int](), FileLock(tmp_path / "0.lock")

    def spoken(_, __, number, path):
        order.append(number)
        path.touch()
        other.release()

    monkeypatch.setattr(fit_statistics, "_speak_part", spoken)
    other.acquire()
    fit_statistics._speak(
        None, lambda _: iter(()), {number: tmp_path / f"{number}.npz" for number in (0, 1)}
    )  # type: ignore[arg-type]
    assert order == [1, 0]


def test_texts_have_the_words_asked_for_and_a_quarter_is_altered():
    """Whole sentences, three texts in ten, only have about as many words. An altered text is as no
    sentence is.
    """
    spoken = list(islice(draw_lines(("a",), 1), 400))
    counts = [len(line.text.split()) for line in spoken[:200] if line.alteration != "repeated"]
    assert sum(WORDS[0] <= count <= WORDS[1] for count in counts) > 0.8 * len(counts)
    assert min(counts) < 6
    assert max(counts) > 70
    kinds = Counter(line.alteration for line in spoken)
    assert kinds.keys() == {"", *ALTERATIONS}
    assert 80 < kinds.total() - kinds[""] < 120
    repeated = [line.text.split()[:-1] for line in spoken if line.alteration == "repeated"]
    assert all(len(set(words)) == 1 for words in repeated)
    assert list(islice(draw_lines(("a",), 1), 400)) == spoken


def test_the_teacher_speaks_an_altered_line_as_it_says(checkpoint):
    """What reaches the vocoder: no voicing, another energy, a longest vowel of so many seconds."""
    teacher, tensors = Teacher(checkpoint), {}
    teacher._measure = lambda arrays, kind: tensors.update(
        {kind: dict(zip(FIELDS, arrays, strict=True))}
    )
    for kind, strength in (("", 0.0), ("whispered", 0.0), ("energy", -2.5), ("held", 3.0)):
        teacher(TaughtLine(TEXT, checkpoint.voices[0], 1.0, kind, strength), 1)
    plain = tensors.pop("")
    assert plain["f0_hz"].any()
    assert not tensors["whispered"]["f0_hz"].any()
    assert np.allclose(tensors["energy"]["energy"], plain["energy"] - 2.5, atol=1e-5)
    assert tensors["energy"]["f0_hz"].tolist() == plain["f0_hz"].tolist()
    more = tensors["held"]["asr"].shape[-1] - plain["asr"].shape[-1]
    assert 80 < more < 120
    assert hold_vowel("kˈæt.", np.array([4, 3, 1, 9, 20, 5, 6]), 2.0).tolist() == [
        4,
        3,
        1,
        80,
        20,
        5,
        6,
    ]


def test_the_commands(tmp_path, capsys):
    out = tmp_path / "s.npz"
    sizes, data = ("--count", "20", "--landmarks", "8", "--rank", "4"), str(tmp_path / "d")
    assert fit(["--checkpoint", str(DEMO_VOICE), *sizes, "--data", data, "--out", str(out)]) == 0
    report = printed(capsys)
    errors = report["errors"]
    assert min(errors.values()) <= errors["all"] < errors["the average"]
    assert load_predictor(out).checkpoint == open_checkpoint(str(DEMO_VOICE)).sha256
    # what was spoken serves again
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "d").iterdir()}
    assert fit(["--checkpoint", str(DEMO_VOICE), *sizes, "--data", data, "--out", str(out)]) == 0
    assert printed(capsys)["errors"] == errors
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "d").iterdir()} == times
    for bad in ("--count 3", "--rank 0"):
        assert fit(f"--checkpoint {DEMO_VOICE} {bad}".split()) == 2, bad
