"""Text to aligned speech with Debian's flite: the training corpus under build/demo/corpus/ and the frozen utterances.

python -m demo.corpus                # training corpus, cached
python -m demo.corpus --frozen       # writes core/data/heldout/ and calibration/ again
"""

if __package__ in (None, ""):  # run as a file: put the repo root, not demo/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError, run_cli

if TYPE_CHECKING:
    import numpy as np

    from core.corpus import Utterance
    from demo.phones import FlitePhone
    from demo.spelling import Speller

SENTENCES, SEED = 780, 0  # about 55 minutes over three voices
FLITE_VERSION = "2.2"
LARGEST_COST = 0.2  # alignment cost a symbol above which two lexicons said different words


def main(argv: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    return run_cli(_main, argv)


def _main(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/demo/corpus"), help="folder for the training corpus (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the text (default: %(default)s)")
    parser.add_argument("--frozen", action="store_true", help="make the bundled held-out and calibration utterances instead")
    args = parser.parse_args(argv)
    if args.frozen:
        from core.corpus import DATA

        made = {name: write_frozen(name, DATA / name) for name in ("heldout", "calibration")}
        print(json.dumps({"utterances": made}))
        return 0
    seconds = build(args.out, args.sentences, args.seed)
    print(json.dumps({"folder": str(args.out), "sentences": args.sentences, "seed": args.seed, "minutes": round(seconds / 60, 1)}))
    return 0


def build(folder: Path, sentences: int, seed: int) -> float:
    """Speak what is not yet in `folder`; return seconds of speech. Voices take turns."""
    from rich.console import Console
    from rich.progress import track

    from core.contract import FRAMES_PER_SECOND
    from core.corpus import VOICES, load, save
    from demo.sentences import training_sentences

    frames = 0
    texts = list(enumerate(training_sentences(sentences, seed)))
    for i, text in track(texts, "flite speaks", console=Console(stderr=True)):
        name = f"s{seed}-{i:05d}"
        if not (folder / f"{name}.npz").exists():
            save(spoken(name, text, VOICES[i % len(VOICES)]), folder)
        frames += load(folder / f"{name}.npz").frames
    return frames / FRAMES_PER_SECOND


def write_frozen(name: str, folder: Path) -> int:
    """Speak data/NAME.txt, voices taking turns, in the symbols of its spelling; recordings are kept for the held-out ones only."""
    from dataclasses import replace

    from core.corpus import VOICES, frozen_sentences, save
    from demo.spelling import american_speller

    lines, spell = frozen_sentences(name), american_speller()
    for i, text in enumerate(lines):
        voice = VOICES[i % len(VOICES)]
        utterance, _ = spelled(f"{name}-{i:02d}-{voice}", text, voice, spell)
        save(utterance if name == "heldout" else replace(utterance, recording=None), folder)
    return len(lines)


def spoken(name: str, text: str, voice: str) -> "Utterance":
    """Let flite say `text`; return the Utterance in flite's own phones, with recording, alignment, pitch and energy."""
    recording, phones = speak(text, voice)
    return measured(name, text, voice, recording, phones)


def measured(name: str, text: str, voice: str, recording: "np.ndarray", phones: "list[FlitePhone]") -> "Utterance":
    """The Utterance of a recording [samples at 16 kHz] and its phones."""
    import numpy as np

    from core.contract import FRAMES_PER_SECOND
    from core.corpus import RECORDING_RATE_HZ, Utterance
    from demo.features import VOICE_RANGES, log_energy, pitch_hz, resampled, to_frames
    from demo.phones import frame_durations, kokoro_tokens, token_ids, vocabulary

    tokens = kokoro_tokens(phones, question=text.endswith("?"))
    frames = round(len(recording) / RECORDING_RATE_HZ * FRAMES_PER_SECOND)
    audio = to_frames(resampled(recording, RECORDING_RATE_HZ), frames)
    samples = frames * RECORDING_RATE_HZ // FRAMES_PER_SECOND
    return Utterance(
        id=name,
        voice=voice,
        text=text,
        phonemes="".join(token.symbol for token in tokens),
        input_ids=np.array(token_ids(tokens, vocabulary()), dtype=np.int32),
        durations=np.array(frame_durations([token.end_seconds for token in tokens], frames), dtype=np.int32),
        f0_hz=pitch_hz(audio, VOICE_RANGES[voice]),
        energy=log_energy(audio),
        recording=np.pad(recording[:samples], (0, max(0, samples - len(recording)))).astype(np.float32),
    )


def spelled(
    name: str, text: str, voice: str, spell: "Speller", keep: "Callable[[Utterance], None] | None" = None
) -> "tuple[Utterance, float]":
    """`text` spoken, in the symbols of its spelling, and the alignment's cost a symbol; `keep` is given the same in flite's phones.

    Raises InputError where the lexicon does not know a word.
    """
    from dataclasses import replace

    import numpy as np

    from demo.alignment import align
    from demo.phones import vocabulary
    from demo.prose import spoken_text

    phonemes, vocab = spell(text), vocabulary()
    if phonemes is None:
        raise InputError(f"misaki's lexicon lacks a word of {text!r}")
    recording, phones = speak(spoken_text(text), voice)
    utterance = measured(name, text, voice, recording, phones)
    aligned = align(phonemes, phones, utterance.frames)
    if keep is not None and aligned.cost <= LARGEST_COST:
        keep(utterance)
    ids = np.array([0, *(vocab[symbol] for symbol in phonemes), 0], dtype=np.int32)
    durations = np.array(aligned.durations, dtype=np.int32)
    return replace(utterance, phonemes=phonemes, input_ids=ids, durations=durations), aligned.cost


def speak(text: str, voice: str) -> "tuple[np.ndarray, list[FlitePhone]]":
    """flite's samples at 16 kHz (float32 [samples]) and its phones."""
    from demo.phones import parse_psdur

    recording, psdur = run_flite(text, voice)
    return recording, parse_psdur(psdur)


def run_flite(text: str, voice: str) -> "tuple[np.ndarray, str]":
    """flite's samples at 16 kHz (float32 [samples]) and its -psdur line."""
    import soundfile

    from core.corpus import RECORDING_RATE_HZ, VOICES

    if voice not in VOICES:
        raise InputError(f"unknown voice {voice!r}; the demo voices are {', '.join(VOICES)}")
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / "x.wav"
        command = ["flite", "-voice", voice, "-psdur", "-o", str(wav), "-t", text]
        try:
            said = subprocess.run(command, capture_output=True, text=True, check=True)
        except FileNotFoundError:
            raise InputError(f"flite is not installed: apt-get install flite (version {FLITE_VERSION} was used)") from None
        except subprocess.CalledProcessError as problem:
            raise InputError(f"flite failed on {text[:60]!r}: {problem.stderr.strip()[:120]}") from None
        audio, rate_hz = soundfile.read(wav, dtype="float32")
    if rate_hz != RECORDING_RATE_HZ:
        raise InputError(f"flite's voice {voice} runs at {rate_hz} Hz, not {RECORDING_RATE_HZ}")
    return audio, said.stdout


if __name__ == "__main__":
    from demo.corpus import main  # one module identity, however it was started

    raise SystemExit(main(sys.argv[1:]))
