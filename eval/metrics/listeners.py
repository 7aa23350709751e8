"""Who listens to a signal [samples] at 24 kHz: a recognizer, two models of quality, a voice
encoder, PESQ. Packages bring the weights.

    words_heard(signal), voiceprint_of(signal), dnsmos_of(signal), distillmos_of(signal)
    pesq_positions(reference, signal)

None was trained on synthetic speech of this model: only differences to the fp32 render of the same
sentence mean anything. A package that is missing is an InputError with the command that installs
it; nothing is skipped.
"""

import importlib.util
import io
import re
import sys
from collections.abc import Callable
from contextlib import contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_ane.core import SAMPLE_RATE_HZ, InputError
from kokoro_ane.eval.metrics.framing import MODEL_RATE_HZ, WINDOW, at_16_khz, at_least

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pocketsphinx


DNSMOS_SAMPLES = int(9.01 * MODEL_RATE_HZ)  # what the model was trained on
DISTILLMOS_SAMPLES = 122_880  # 7.68 s
MEL_BINS, EMBEDDING, LAYERS = 40, 256, 3  # resemblyzer's hparams
PART_FRAMES, PART_STEP = 160, 77  # 1.6 s, 1.3 a second
VOICEPRINT_RMS = 10 ** (-30 / 20)
# every reading is brought to this level: the recognizer is not judged on loudness
RECOGNIZER_RMS = 0.08
PESQ_SILENCE = SAMPLE_RATE_HZ // 2  # samples of zeros before and after, half a second
PESQ_STARTS = (0, 128, 256)  # samples: thirds of PESQ's 16 ms frame step
LONGEST_PESQ_SECONDS = 15.0  # the package keeps at most 50 utterances in an array it does not check
# a long clip is cut where the reference is quietest this near to an equal share
SEARCH_SECONDS = 2.0
INSTALL = (
    'pip install -e ".[judge]" && pip install --no-deps resemblyzer==0.1.4 distillmos==0.9.1'
    " xls-r-sqa==0.1.0 (make venv does both)"
)


def dnsmos_of(signal: np.ndarray) -> float:
    """Overall quality by DNSMOS P.835, MOS: mean over consecutive pieces of 9 s; a shorter clip, or
    the rest, is said again until full.
    """
    samples = at_16_khz(signal)
    # DNSMOS refuses samples beyond full scale: such a signal is brought down to it.
    samples = at_least(samples / max(1.0, float(np.abs(samples).max())), DNSMOS_SAMPLES)
    return float(np.mean([_dnsmos()(piece) for piece in _pieces(samples, DNSMOS_SAMPLES)]))


@torch.no_grad()
def distillmos_of(signal: np.ndarray) -> float:
    """Quality by DistillMOS, MOS: mean over consecutive pieces of 7.7 s, else as above."""
    samples = at_least(at_16_khz(signal), DISTILLMOS_SAMPLES)
    pieces = torch.from_numpy(np.stack(_pieces(samples, DISTILLMOS_SAMPLES))).float()
    # [1, samples] each
    return float(np.mean([float(_distillmos()(piece[None])) for piece in pieces]))


def voiceprint_of(signal: np.ndarray) -> np.ndarray:
    """Resemblyzer's speaker embedding [256] of length 1: the mean over parts of 1.6 s, 1.3 a
    second, without its silence detector.
    """
    from librosa.feature import melspectrogram

    # One part at least: its 160 frames begin 160 samples apart.
    samples = at_least(at_16_khz(signal), PART_FRAMES * 160)
    # Every signal is brought to one level, so that loudness is no part of a voiceprint.
    samples = samples * (VOICEPRINT_RMS / np.sqrt(np.square(samples).mean()))
    # [frames, 40]
    mel = melspectrogram(
        y=samples, sr=MODEL_RATE_HZ, n_fft=400, hop_length=160, n_mels=MEL_BINS
    ).T.astype(np.float32)
    # [parts, 160, 40]
    starts = range(0, len(mel) - PART_FRAMES + 1, PART_STEP)
    parts = np.stack([mel[start : start + PART_FRAMES] for start in starts])
    # A mean of unit vectors is shorter than 1, so it is brought back to length 1.
    return _unit(_voice_encoder()(torch.from_numpy(parts)).mean(dim=0)).numpy()


class VoiceEncoder(nn.Module):
    """Resemblyzer's network (GE2E): an LSTM over mel frames, its last state through a layer, length
    1.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(MEL_BINS, EMBEDDING, LAYERS, batch_first=True)
        self.linear = nn.Linear(EMBEDDING, EMBEDDING)

    @torch.no_grad()
    def forward(self, mel: Tensor) -> Tensor:
        """Embed mel frames: [parts, 160, 40] -> [parts, 256]."""
        # The last layer at the last frame stands for the part.
        _, (state, _) = self.lstm(mel)
        return _unit(torch.relu(self.linear(state[-1])))


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def _pieces(samples: np.ndarray, length: int) -> list[np.ndarray]:
    """Consecutive pieces of `length`; a rest of at least half a piece is the signal's last `length`
    samples.
    """
    starts = list(range(0, len(samples) - length + 1, length))
    if len(samples) - (starts[-1] + length) >= length // 2:
        starts.append(len(samples) - length)
    return [samples[start : start + length] for start in starts]


def _needs(package: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"the judge listens with {package}, which is not installed: {INSTALL}")
    return Path(spec.submodule_search_locations[0])


@cache
def _dnsmos() -> Callable[[np.ndarray], float]:
    """Overall quality of a piece [DNSMOS_SAMPLES]. The package's own call runs P.808's network too,
    which nobody reads.
    """
    model = _needs("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx"
    _needs("onnxruntime")
    import onnxruntime
    from speechmos.dnsmos import DNSMOS

    options = onnxruntime.SessionOptions()
    # another number of threads changes the last bits
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options)

    def overall(piece: np.ndarray) -> float:
        raw = session.run(None, {"input_1": piece[None].astype(np.float32)})[0][0]
        return float(DNSMOS.get_polyfit_val(None, *raw, False)[2])  # of signal, background, overall

    return overall


@cache
def _distillmos() -> nn.Module:
    for package in ("distillmos", "xls_r_sqa"):
        _needs(package)
    with _without_torchaudio(), redirect_stdout(io.StringIO()):  # it prints where its weights are
        from distillmos import ConvTransformerSQAModel

        return ConvTransformerSQAModel().eval()


@contextmanager
def _without_torchaudio() -> "Iterator[None]":
    """DistillMOS imports torchaudio for its command line only; there is no build of it for every
    PyTorch.
    """
    if importlib.util.find_spec("torchaudio"):
        yield
        return
    # An empty module satisfies the import; it goes afterwards, so that others still find none.
    sys.modules["torchaudio"] = ModuleType("torchaudio")
    try:
        yield
    finally:
        del sys.modules["torchaudio"]


@cache
def _voice_encoder() -> VoiceEncoder:
    """Read the package's weights only: its module wants webrtcvad."""
    path, encoder = _needs("resemblyzer") / "pretrained.pt", VoiceEncoder()
    stored = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
    # Only the network's own tensors are taken: a training checkpoint may hold more.
    encoder.load_state_dict({name: stored[name] for name in encoder.state_dict()})
    return encoder.eval()


def pesq_positions(reference: np.ndarray, test: np.ndarray) -> tuple[float, ...]:
    """Score the test by PESQ at each of the three positions."""
    cuts = pauses_between(reference)
    pieces = list(zip(np.split(reference, cuts), np.split(test, cuts), strict=True))
    # The pieces of a long clip count by their length.
    weights = [len(piece) for piece, _ in pieces]
    positions = []
    for start in PESQ_STARTS:
        scores = [_pesq(*pair, start) for pair in pieces]
        positions.append(float(np.average(scores, weights=weights)))
    return tuple(positions)


def pauses_between(signal: np.ndarray) -> list[int]:
    """Samples at which a signal over 15 s is cut into pieces of about one length: its quietest 60
    ms near each equal share.
    """
    if len(signal) <= LONGEST_PESQ_SECONDS * SAMPLE_RATE_HZ:
        return []
    # A cut may lie a second off the equal share, so shares are planned that much shorter.
    count = -(-len(signal) // int((LONGEST_PESQ_SECONDS - SEARCH_SECONDS) * SAMPLE_RATE_HZ))
    # [samples] the energy of the 60 ms around each sample
    power = np.convolve(np.square(signal), np.ones(WINDOW), mode="same")
    reach, cuts = int(SEARCH_SECONDS / 2 * SAMPLE_RATE_HZ), []
    for share in range(1, count):
        # PESQ hears a cut least where the reference is quietest.
        around = len(signal) * share // count
        cuts.append(around - reach + int(np.argmin(power[around - reach : around + reach])))
    return cuts


def _pesq(reference: np.ndarray, test: np.ndarray, start: int) -> float:
    from pesq import NoUtterancesError, pesq  # loads a C extension

    # The silence before the clip shifts it on PESQ's frame grid by `start` samples.
    silence = (PESQ_SILENCE + start, PESQ_SILENCE)
    signals = (at_16_khz(np.pad(signal, silence)) for signal in (reference, test))
    try:
        return float(pesq(MODEL_RATE_HZ, *signals, "wb"))
    except NoUtterancesError:
        raise InputError(
            "PESQ finds no utterance in the reference signal: a clip of speech is needed"
        ) from None


def words_heard(signal: np.ndarray) -> tuple[str, ...]:
    """Return the words that the recognizer hears in a signal [samples] at 24 kHz."""
    return recognized(at_16_khz(signal))


def recognized(
    samples: np.ndarray, decoder: "pocketsphinx.Decoder | None" = None
) -> tuple[str, ...]:
    """What the recognizer, or a decoder of other words, hears in samples [n] at 16 kHz. What it
    heard before has no part in it.
    """
    decoder = decoder or _decoder()
    # The recognizer takes 16-bit samples.
    level = RECOGNIZER_RMS / max(float(np.sqrt(np.mean(np.square(samples)))), 1e-6)
    audio = (np.clip(samples * level, -1, 1) * 32767).astype("<i2")
    # Its mean, gain and noise would carry over: with set_cmn alone what was heard before changed
    # words of the next clip.
    decoder.reinit_feat()
    decoder.start_utt()
    decoder.process_raw(audio.tobytes(), full_utt=True)
    decoder.end_utt()
    hypothesis = decoder.hyp()
    # A variant of a pronunciation is written word(2); which one was heard does not matter.
    return tuple(re.sub(r"\(\d+\)", "", hypothesis.hypstr).split()) if hypothesis else ()


@cache
def _decoder() -> "pocketsphinx.Decoder":
    _needs("pocketsphinx")
    import pocketsphinx

    return pocketsphinx.Decoder(samprate=MODEL_RATE_HZ, loglevel="FATAL")
