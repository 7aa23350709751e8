"""docs/synthesis.md followed to the letter, in NumPy and plain Python, against the stored vectors:
the page is enough to port from.

Nothing of pipeline/ is imported here but the folder it wrote: index.json, .npy files, manifests.
"""

import json
import math
import re

import numpy as np
import pytest

from kokoro_ane.core.checks import snr_db
from tests.commands import ROOT

Tensors = dict[str, np.ndarray]
UTTERANCES = ("short", "sentence")


@pytest.fixture(scope="module", params=UTTERANCES)
def stored(request, tiny_vectors):
    return {path.stem: np.load(path) for path in (tiny_vectors / request.param).glob("*.npy")}


@pytest.fixture(scope="module")
def index(tiny_vectors):
    return json.loads((tiny_vectors / "index.json").read_text(encoding="utf-8"))


def bucket(count, buckets):
    return next(size for size in buckets if size >= count)


def test_ids_pad_and_style(stored, index, tiny_vectors, tiny_checkpoint):
    vocabulary = tiny_checkpoint.config.vocab
    ids = [0, *(vocabulary[chr(code)] for code in stored["phonemes"]), 0]
    assert ids == stored["ids"].tolist()
    assert [*ids, *[-1] * (bucket(len(ids), index["buckets"]["tokens"]) - len(ids))] == stored[
        "input_ids"
    ][0].tolist()
    row = np.load(tiny_vectors / "voice.npy")[len(stored["phonemes"]) - 1]
    assert np.array_equal(row[:, :128], stored["style_decoder"])
    assert np.array_equal(row[:, 128:], stored["style_prosody"])


def test_round_align_and_frames(stored, index):
    # Python's round is half to even
    durations = [max(1, round(float(raw))) for raw in stored["raw"]]
    assert durations == stored["durations"].tolist()
    order = [token for token, frames in enumerate(durations) for _ in range(frames)]
    assert order == stored["token_of_frame"].tolist()
    assert np.array_equal(stored["text"][0, :, 0, :][:, order], stored["asr"][0])
    frames = np.zeros_like(stored["frames"])
    assert frames.shape[-1] == bucket(len(order), index["buckets"]["frames"])
    frames[0, :-1, 0, : len(order)] = stored["hidden"][0, :, 0, :][:, order]
    frames[0, -1, 0, : len(order)] = 1
    assert np.array_equal(frames, stored["frames"])


def test_excitation(stored, tiny_build):
    source = json.loads(
        (tiny_build / "KokoroVocoder-tiny-padded-fp16.json").read_text(encoding="utf-8")
    )["source"]
    f0_hz, noise = stored["f0_hz"][0].astype(np.float64), stored["noise"][0].astype(np.float64)
    cycles, last = np.cumsum(f0_hz * 300 / 24000), len(f0_hz) - 1
    t = np.arange(300 * len(f0_hz))
    x = np.clip((t + 0.5) / 300 - 0.5, 0, last)
    low = np.floor(x).astype(int)
    phase = cycles[low] + (x - low) * (cycles[np.minimum(low + 1, last)] - cycles[low])
    voiced, total = (f0_hz > 10)[t // 300].astype(np.float64), np.full(len(t), source["bias"])
    for k in range(1, 10):
        wave = 0.1 * np.sin(2 * np.pi * k * phase) * voiced + noise[:, k - 1] * (
            0.003 * voiced + 0.1 / 3 * (1 - voiced)
        )
        total += source["weights"][k - 1] * wave
    assert snr_db(stored["excitation"][0], np.tanh(total)) >= 100


# The page's twenty numbers: the formula gives other last places, and other signs of pi in column 0.
PAGE = (ROOT / "docs" / "synthesis.md").read_text(encoding="utf-8")
WINDOW = [
    float(number)
    for number in re.findall(r"\d\.\d+(?=,|\n)", PAGE[PAGE.index("\n    0.0,") :])[:20]
]


def parts(magnitude, phase):
    return np.stack([magnitude * np.cos(phase), magnitude * np.sin(phase), magnitude * phase])


def test_spectrum_and_the_sign_of_pi(stored):
    """Control: -pi in the highest bin passes real and imaginary parts, and fails magnitude times
    phase.
    """
    signal, window = stored["excitation"][0], np.array(WINDOW, np.float32).astype(np.float64)
    padded = np.concatenate([signal[10:0:-1], signal, signal[-2:-12:-1]])
    # [11, 120F + 1]
    columns = [padded[5 * m : 5 * m + 20] * window for m in range(len(signal) // 5 + 1)]
    spectrum = np.stack([np.fft.rfft(column) for column in columns], axis=1)
    magnitude, phase = np.abs(spectrum), np.angle(spectrum)
    expected = parts(*np.split(stored["spectrum"][0].astype(np.float64), 2))
    assert expected.shape[1:] == spectrum.shape
    assert snr_db(expected, parts(magnitude, phase)) >= 80
    phase[10] *= -1
    turned = parts(magnitude, phase)
    assert snr_db(expected[:2], turned[:2]) >= 80 > snr_db(expected, turned)


def test_pack(stored, index):
    count = stored["asr"].shape[-1]
    width = bucket(count, index["buckets"]["vocoder_frames"]) + 1
    flat = []
    rows = [
        *((row, 1) for row in stored["asr"][0]),
        (stored["f0_hz"][0], 2),
        (stored["energy"][0], 2),
        (np.ones(count), 1),
    ]
    for row, rate in (*rows, *((row, 120) for row in stored["spectrum"][0])):
        flat += [*row.tolist(), *[0.0] * (rate * width - len(row))]
    assert np.array_equal(np.array(flat, np.float32), stored["features"].ravel())
    assert stored["features"].shape[2:] == (1, width)


def test_finish(stored):
    slope = np.sin(np.pi * (2 * np.arange(120) + 1) / 480) ** 2
    samples = stored["waveform"].astype(np.float64)
    samples[:120] *= slope
    samples[-120:] *= slope[::-1]
    gain = min(1.0, 1 / np.abs(samples).max())
    assert gain == pytest.approx(float(stored["gain"][0]))
    assert snr_db(stored["samples"], samples * gain) >= 100


def test_chunks_pauses_and_times_of_the_text(index, tiny_vectors):
    import soundfile

    text, place = index["text"], 0
    seconds, before = {"paragraph": 0.5, "sentence": 0.2, "clause": 0.08, "none": 0.0}, 0.0
    for number, chunk in enumerate(text["chunks"]):
        assert chunk["pause_samples"] == math.floor(24000 * before / text["speed"] + 0.5)
        assert chunk["seed"] == text["seed"] + number
        assert chunk["start_sample"] == place + chunk["pause_samples"]
        assert chunk["samples"] == 600 * sum(chunk["durations"])
        assert len(chunk["durations"]) == len(chunk["phonemes"]) + 2
        assert len(chunk["phonemes"]) <= text["longest_phonemes"]
        place, before = chunk["start_sample"] + chunk["samples"], seconds[chunk["ending"]]
    audio, rate_hz = soundfile.read(tiny_vectors / text["file"], dtype="int16")
    assert len(audio) == place
    assert rate_hz == 24000
    assert [chunk["ending"] for chunk in text["chunks"]] == [
        "sentence",
        "paragraph",
        "clause",
        "sentence",
    ]
    assert all(
        not audio[c["start_sample"] - c["pause_samples"] : c["start_sample"]].any()
        for c in text["chunks"]
    )
