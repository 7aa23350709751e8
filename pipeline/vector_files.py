"""Write and check a folder of test vectors: tensors of every step, indexed with hashes.

index = write_vectors(Path("build/vectors"), chain, {"name": "mine", "sha256": "..."}, packages)
rows = check_vectors(Path("build/vectors"), chain, packages)
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from kokoro_ane.core import (
    EQUAL,
    InputError,
    Tensors,
    Voice,
    check_inside,
    conform,
    json_text,
    read_json,
    read_npy,
    readable,
    run_steps,
    sha256_of,
    staged,
    strangers,
)
from kokoro_ane.pipeline.audio import open_file
from kokoro_ane.pipeline.step_comparison import StepRow, compare_tensor, replay_step
from kokoro_ane.pipeline.synthesis import STEPS, Chain, Pipeline, Speech, SpeechOptions, begin
from kokoro_g2p import LONGEST_PHONEMES, PAUSES_S, phoneme_sentences

FORMAT = 2
INDEX, VOICE, STATISTICS, JOINED = "index.json", "voice.npy", "statistics.npy", "text.wav"


@dataclass(frozen=True)
class VectorUtterance:
    """An utterance of the vectors; its phonemes are of Kokoro's vocabulary."""

    id: str
    phonemes: str
    speed: float = 1.0
    seed: int = 0


UTTERANCES = (
    VectorUtterance("short", "hˈI."),
    VectorUtterance("sentence", "həlˈO, wˈɜɹld! ðɪs ɪz ɐ tˈɛst.", speed=1.25, seed=7),
)
# Three chunks: a sentence, a paragraph break, and a sentence cut in two because one call says at
# most CUT phonemes here.
TEXT = "hˈI. ðˈɛɹ.\n\nwˌi ˈɑɹ hˈɪɹ, ænd ðˈA ˈɑɹ ðˈɛɹ."
CUT = 20
SEED = 3


class StoredFile(TypedDict):
    """A file and its hash."""

    file: str
    sha256: str


class UtteranceEntry(TypedDict):
    """The entry of one utterance, as far as it is read again. Beside the file of a tensor stand its
    shape and dtype.
    """

    id: str
    tensors: dict[str, StoredFile]


class TextEntry(StoredFile):
    """The entry of the joined text."""

    longest_phonemes: int
    chunks: list[dict[str, Any]]


class Index(TypedDict):
    """The fields of index.json that are read again."""

    format: int
    checkpoint: dict[str, str]
    packages: dict[str, str]
    voice: StoredFile
    statistics: StoredFile
    utterances: list[UtteranceEntry]
    text: TextEntry


def speak_text_cut(chain: Chain, longest: int) -> list[Speech]:
    """Speak TEXT, cut at `longest` phonemes."""
    pipeline = Pipeline(
        phoneme_sentences, chain.encoder, chain.vocoder, chain.vocab, longest=longest
    )
    return list(pipeline.speak(TEXT, chain.speaker, SpeechOptions(seed=SEED)))


def write_vectors(
    folder: Path, chain: Chain, checkpoint: dict[str, str], packages: dict[str, str]
) -> dict[str, Any]:
    """Run every utterance through every step and write all tensors; the folder appears when it is
    complete. Returns the index.
    """
    lengths = chain.encoder.buckets
    buckets = {}
    # a runtime of exact lengths has no buckets
    if lengths and chain.vocoder.buckets:
        buckets = {
            "tokens": list(lengths.tokens),
            "frames": list(lengths.frames),
            "vocoder_frames": list(chain.vocoder.buckets),
        }
    with staged(folder, vectors_of_ours) as aside:
        aside.mkdir()
        np.save(aside / VOICE, chain.voice)
        np.save(aside / STATISTICS, chain.speaker.statistics)
        utterances = [_write_utterance(aside, chain, utterance) for utterance in UTTERANCES]
        # CUT is short, so that a few words have a join of every kind.
        speeches = speak_text_cut(chain, CUT)
        # the joined text is written as speak writes it
        with open_file(aside / JOINED) as sink:
            for speech in speeches:
                sink.write(speech.audio)
        index = {
            "format": FORMAT,
            "checkpoint": checkpoint,
            "packages": packages,
            "buckets": buckets,
            "voice": {"file": VOICE, "sha256": sha256_of(aside / VOICE)},
            "statistics": {"file": STATISTICS, "sha256": sha256_of(aside / STATISTICS)},
            "steps": [step.as_dict() for step in STEPS],
            "utterances": utterances,
            "text": _describe_text(speeches)
            | {"file": JOINED, "sha256": sha256_of(aside / JOINED)},
        }
        # Last, because it holds the hashes of all other files.
        (aside / INDEX).write_text(json_text(index), encoding="utf-8")
    return index


def vectors_of_ours(folder: Path) -> str | None:
    """Return why `write_vectors` did not write a folder, or None: for core.staging.staged."""
    try:
        index = load_index(folder)
    except InputError:
        return f"it holds no {INDEX} of test vectors"
    return strangers(folder, {INDEX, *(entry["file"] for entry in _list_files(index))})


def _list_files(index: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of all files that an index names."""
    tensors = [entry for one in index["utterances"] for entry in one["tensors"].values()]
    return [index["voice"], index["statistics"], index["text"], *tensors]


def _write_utterance(folder: Path, chain: Chain, utterance: VectorUtterance) -> dict[str, Any]:
    tensors = run_steps(STEPS, chain, begin(utterance.phonemes, utterance.speed, utterance.seed))
    (folder / utterance.id).mkdir()
    entries = {}
    for name, array in tensors.items():
        file = f"{utterance.id}/{name}.npy"
        path = folder / file
        # Rows in order, whatever strides the tensor had here.
        np.save(path, np.ascontiguousarray(array))
        entries[name] = {
            "file": file,
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "sha256": sha256_of(path),
        }
    return vars(utterance) | {"tensors": entries}


def _describe_text(speeches: list[Speech]) -> dict[str, Any]:
    """Describe the text: where it is cut, and where each chunk lies in the joined audio."""
    offset = 0
    chunks = []
    for speech in speeches:
        # A chunk's own pause lies before its samples.
        start = offset + speech.pause
        words = [
            {"text": word.text, "start": word.start, "end": word.end} for word in speech.chunk.words
        ]
        chunks.append(
            {
                "phonemes": speech.chunk.phonemes,
                "ending": speech.chunk.ending,
                "pause_samples": speech.pause,
                "start_sample": start,
                "samples": len(speech.samples),
                # each chunk draws noise of its own
                "seed": SEED + speech.index,
                "durations": list(speech.durations),
                "edges": list(speech.edges),
                "words": words,
            }
        )
        offset = start + len(speech.samples)
    return {
        "phonemes": TEXT,
        "seed": SEED,
        "speed": 1.0,
        "longest_phonemes": CUT,
        "longest_phonemes_in_use": LONGEST_PHONEMES,
        "pauses_s": {f"{ending}_s": pause_s for ending, pause_s in PAUSES_S.items()},
        "chunks": chunks,
    }


def load_index(folder: Path) -> dict[str, Any]:
    """Read index.json. Raises InputError when it is missing or of another format."""
    index = read_json(
        folder / INDEX,
        f"{folder} holds no vectors; `kokoro-ane vectors --out {folder}` writes them",
    )
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise InputError(
            f"{folder / INDEX} is no index of format {FORMAT}: write the vectors again with"
            " kokoro-ane vectors"
        )
    conform(index, Index, str(folder / INDEX))
    # A name may lead nowhere but into the folder.
    for entry in _list_files(index):
        check_inside(entry["file"], f"{folder / INDEX}: a file's name")
    return index


def load_tensors(folder: Path, utterance: dict[str, Any]) -> Tensors:
    """Read the tensors of one utterance. Raises InputError for one that is missing or does not have
    the hash of the index.
    """
    tensors = {}
    for name, entry in utterance["tensors"].items():
        path = folder / entry["file"]
        if not path.is_file() or sha256_of(path) != entry["sha256"]:
            state = "is damaged" if path.is_file() else "is missing"
            raise InputError(
                f"{path} {state}: its hash is not the one in {folder / INDEX}; write the vectors"
                " again"
            )
        tensors[name] = read_npy(path)
    return tensors


def check_vectors(folder: Path, chain: Chain, packages: dict[str, str]) -> list[StepRow]:
    """Replay every step of every utterance, and the joined text; return one row a tensor. Raises
    InputError: other packages, damaged files.
    """
    index = load_index(folder)
    # The limits hold for the packages that wrote the vectors.
    if index["packages"] != packages:
        raise InputError(
            f"{folder} was written with other packages ({', '.join(index['packages'])}): write the"
            " vectors again"
        )
    # The stored voice speaks, whatever the checkpoint holds.
    speaker = Voice(read_npy(folder / VOICE), read_npy(folder / STATISTICS))
    chain = replace(chain, speaker=speaker)
    rows: list[StepRow] = []
    # tensors with the hash of their index may still be of any shape and value
    with readable(folder / INDEX, "write the vectors again", ArithmeticError):
        for utterance in index["utterances"]:
            stored = load_tensors(folder, utterance)
            for step in STEPS:
                rows += replay_step(chain, stored, step, utterance["id"])
        return rows + _check_text(folder, index["text"], chain)


def _check_text(folder: Path, text: dict[str, Any], chain: Chain) -> list[StepRow]:
    import soundfile

    # a port has to cut the text at the same places
    speeches = speak_text_cut(chain, text["longest_phonemes"])
    stored, _ = soundfile.read(folder / text["file"], dtype="float32")
    joined = np.concatenate([speech.audio for speech in speeches])
    cut = _describe_text(speeches)["chunks"] == text["chunks"]
    return [
        # A truth as a tensor gets a row like all others.
        compare_tensor("chunks", np.ones(1), np.full(1, float(cut)), EQUAL, where="text:"),
        compare_tensor(JOINED, stored, joined, 40.0, where="text:"),
    ]
