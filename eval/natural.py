"""The natural variation of a checkpoint as data: how far the fp32 model is from itself, measured
before any level is judged. Two thirds of a verdict would measure it again.

    variations = Variations.for_checkpoint(checkpoint, seed=0)
    item = variations.find(VOCODER, clip.id, probe)  # None: measure it, then variations.keep(...)

Of every judged clip there are four items: HEARING, what the listening models make of the reference;
of VOCODER what other noise seeds do, and what they allow a test at each place; of ENCODER and
PRODUCT what the neighbouring style rows do. Items of a known checkpoint are in the repository
(eval/data, written by `kokoro-ane variation --write`), those of others in the user's cache.

A clip that a package cuts (speech.corpus.cut_within) is a clip of its own, with another id. An item
is used where the key fits (`compute_variation_key`) and where the reference that is rendered here
is the one that it belongs to: `probe` holds the levels of its stretches, which have to agree to
AGREE. Its samples would not do: on another processor the last bits of F0 turn the phase of nearly
silent bins, so that they agree by 45 to 90 dB, where levels agree by 68 dB and more, and with
another noise seed by 31 to 40.
"""

import ast
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from kokoro_ane.core import (
    CORPUS,
    JUDGED,
    SECOND,
    THIRD,
    VOICES,
    Checkpoint,
    Identity,
    InputError,
    cache_root,
    config_sha256,
    keep_npz,
    read_json,
    read_npz,
    readable,
    sha256_of,
    sha256_of_json,
    staged,
    voice_sha256,
    write_json,
)
from kokoro_ane.eval.gates import PLACED
from kokoro_ane.eval.metrics.allowance import STEP_DB
from kokoro_ane.eval.subjects import VOCODER
from kokoro_ane.speech import list_spoken_lines, read_speech_lines, words_of

HEARING = "heard"  # beside the stages
VARIATION = "variation"  # a folder of the user's cache
SETS = (JUDGED, SECOND, VOICES)
STORED, CACHED, MEASURED = ("stored", "cached", "measured")
EVERY = "measured by every other seed"  # what one left open
FOLDER = Path(__file__).parent / "data"
INDEX = "index.json"
METRICS_CODE = Path(__file__).parent / "metrics"
LISTENERS = ("pesq", "pocketsphinx", "resemblyzer", "speechmos", "distillmos", "xls-r-sqa")
# of a level: one step of what is stored, 0.01 dB, which is 59 dB below the level
AGREE = 10 ** (STEP_DB / 20) - 1
PROBED, PROBED_VOWEL = 32, 8  # stretches

Item = Mapping[str, np.ndarray]  # fields of one clip, [n] each


def compute_variation_key(checkpoint: Checkpoint, seed: int) -> dict[str, Any]:
    """What the items hang on, each part by itself: weights, configuration and voices; the texts as
    they are spoken and as they are counted in words; the seed; the bytes of eval/metrics; the
    versions of the listening models.

    What renders is not in it: a render that changes is found by `probe`.
    """
    texts = {
        name: [[*line, *words_of(line.text)] for line in read_speech_lines(name)] for name in SETS
    }
    # a further voice in the checkpoint's folder changes nothing that is judged
    spoken_by = {line.voice for name in SETS for line in list_spoken_lines(checkpoint, name)}
    packs = {name: voice_sha256(checkpoint.library.blend(name)) for name in sorted(spoken_by)}
    identity = Identity(checkpoint.sha256, config_sha256(checkpoint.config), packs)
    return {
        "checkpoint": identity.sha256,
        "texts": sha256_of_json(texts),
        "seed": seed,
        "metrics": sha256_of_json(sorted(_read_statements(METRICS_CODE))),
        "listeners": {package: version(package) for package in LISTENERS},
    }


def _read_statements(folder: Path) -> set[str]:
    """The statements of a folder's Python files, without what is bound to a place: imports and the
    docstring of a file. In whatever file and order they stand, they compute the same.
    """
    return {
        # Python 3.12 has one field more, which is empty here.
        ast.dump(statement).replace(", type_params=[]", "")
        for path in folder.glob("*.py")
        for statement in ast.parse(path.read_bytes()).body
        # If: imports for the type checker
        if not isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr | ast.If)
    }


@dataclass(frozen=True)
class Variations:
    """The natural variation by kind and clip: the items that the repository stores, where they are
    of this checkpoint and this code, and those in the user's cache. It measures nothing.

    file: the stored items, None where they are not used. line: which are used, or why not.
    folder: where items are written that are measured here, None for nowhere.
    """

    file: Path | None = None
    sha256: str = ""
    line: str = "the natural variation is measured"
    folder: Path | None = None

    @classmethod
    def for_checkpoint(cls, checkpoint: Checkpoint, seed: int, stored: Path = FOLDER) -> Self:
        """The items of this checkpoint in the repository, or in the user's cache."""
        key = compute_variation_key(checkpoint, seed)
        # The key names the folder, so items of other code are never looked up.
        folder = cache_root() / VARIATION / sha256_of_json(key)[:16]
        try:
            entry = _find_entry(stored, key)
        except InputError as why:
            return cls(line=f"the natural variation is measured: {why}", folder=folder)
        counts = ", ".join(f"{kind} {count}" for kind, count in entry["clips"].items())
        line = f"the natural variation of {entry['checkpoint']} is stored ({counts} clips):"
        line += " --fresh measures it again"
        return cls(stored / entry["file"], entry["sha256"], line, folder)

    @property
    def provenance(self) -> dict[str, str]:
        """Where stored items came from, for records."""
        return {"file": self.file.name, "sha256": self.sha256} if self.file else {}

    def find(
        self, kind: str, clip: str, probe: np.ndarray, fits: Callable[[Item], bool] = bool
    ) -> tuple[Item, str] | None:
        """An item and its origin; None where there is none of this reference, or none that
        `fits`.
        """

        def is_ours(item: Item) -> bool:
            return is_same_rendition(item["probe"], probe) and fits(item)

        # The repository's item goes first: every machine then judges by the same figures.
        if (item := self.stored_items.get((kind, clip))) and is_ours(item):
            return item, STORED
        path = self.locate_item(kind, clip)
        if path is None or not path.is_file():
            return None
        try:
            item = read_npz(path)
            return (item, CACHED) if is_ours(item) else None
        except (InputError, KeyError) as problem:
            print(f"the cached variation is not used: {problem}", file=sys.stderr)
            return None

    def keep(self, kind: str, clip: str, item: Item) -> None:
        """Write an item to the user's cache. Where that fails a line on stderr says so."""
        if path := self.locate_item(kind, clip):
            keep_npz(path, item, "variation is", packed=True)

    def locate_item(self, kind: str, clip: str) -> Path | None:
        """Where an item is written that is measured here; the key holds the texts of the judged
        sets, the id of a corpus' line its own, and those of the third set never change.
        """
        # An id begins with its set; of other clips the text is not part of the key.
        judged = clip.split("-")[0] in (*SETS, THIRD, CORPUS)
        return self.folder / kind / f"{clip}.npz" if self.folder and judged else None

    def read_measured_items(self) -> dict[tuple[str, str], Item]:
        """Every item of the judged sets that was measured here, by kind and clip; a vocoder's by
        every other seed.
        """
        paths = sorted(self.folder.glob("*/*.npz")) if self.folder else []
        ours = [path for path in paths if path.stem.split("-")[0] in SETS]
        items = {(path.parent.name, path.stem): read_npz(path) for path in ours}
        return {
            (kind, clip): item
            for (kind, clip), item in items.items()
            if kind != VOCODER or is_of_every_seed(decode_figures(item))
        }

    @cached_property
    def stored_items(self) -> Mapping[tuple[str, str], Item]:
        """Every item that the repository holds, by kind and clip."""
        return unpack_items(read_npz(self.file)) if self.file else {}


def _find_entry(stored: Path, key: Mapping[str, Any]) -> dict[str, Any]:
    """What the index says of the stored items that fit the key. InputError says why none is
    used.
    """
    # A damaged index is an InputError like any other reason not to use it.
    with readable(stored / INDEX, "no stored one is used"):
        entries = _read_index(stored)
        # The checkpoint goes first, so that the reason names the part that really differs.
        fitting = [entry for entry in entries if entry["key"]["checkpoint"] == key["checkpoint"]]
        if not fitting:
            there = ", ".join(entry["checkpoint"] for entry in entries) or "nothing"
            raise InputError(f"no stored one is of this checkpoint (there is: {there})")
        entry: dict[str, Any] = fitting[0]
        name = f"the stored one of {entry['checkpoint']} ({entry['file']})"
        for part, value in key.items():
            if entry["key"][part] != value:
                raise InputError(f"{name} has another key for its {part}")
        if sha256_of(stored / entry["file"]) != entry["sha256"]:
            raise InputError(f"{name} is not the one that was written, its SHA-256 differs")
    return entry


def _read_index(stored: Path) -> list[dict[str, Any]]:
    """The index, an entry for each checkpoint."""
    path = stored / INDEX
    entries: list[dict[str, Any]] = read_json(path, "")["stored"] if path.is_file() else []
    return entries


def write_stored(
    stored: Path, checkpoint: Checkpoint, seed: int, items: Mapping[tuple[str, str], Item]
) -> None:
    """Write the items of a checkpoint beside those that are stored of it by the same key, and its
    entry in the index in place of an older one.
    """
    # What was measured now replaces what was stored.
    items = {**Variations.for_checkpoint(checkpoint, seed, stored).stored_items, **items}
    name = checkpoint.name.rpartition("/")[2]
    file = stored / f"{name}.npz"
    stored.mkdir(exist_ok=True)
    with staged(file) as aside, aside.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **pack_items(items))
    entry = {
        "checkpoint": name,
        "file": file.name,
        "sha256": sha256_of(file),
        "clips": dict(Counter(kind for kind, _ in items)),
        "key": compute_variation_key(checkpoint, seed),
    }
    others = [other for other in _read_index(stored) if other["checkpoint"] != name]
    write_json(stored / INDEX, {"stored": [*others, entry]})


def pack_items(items: Mapping[tuple[str, str], Item]) -> dict[str, np.ndarray]:
    """One array for each field of a kind, all clips one after the other: six hundred small arrays
    would take more room for their headers than for their numbers.
    """
    arrays: dict[str, np.ndarray] = {}
    for kind in dict.fromkeys(kind for kind, _ in items):
        # Every clip of a kind has the same fields, so one list of ids serves all.
        clips = {clip: item for (other, clip), item in items.items() if other == kind}
        arrays[f"{kind}/clips"] = np.array(list(clips))
        for field in next(iter(clips.values())):
            parts = [item[field] for item in clips.values()]
            arrays[f"{kind}/{field}/values"] = np.concatenate(parts)
            arrays[f"{kind}/{field}/lengths"] = np.array([len(part) for part in parts], np.int32)
    return arrays


def unpack_items(arrays: Mapping[str, np.ndarray]) -> Mapping[tuple[str, str], Item]:
    """The items that `pack_items` was given."""
    items: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for name in arrays:
        kind, field, *values = name.split("/")
        if values != ["values"]:
            continue
        ends = np.cumsum(arrays[f"{kind}/{field}/lengths"])
        # The last end is the end of the array, where nothing is cut.
        parts = np.split(arrays[name], ends[:-1])
        for clip, part in zip(arrays[f"{kind}/clips"], parts, strict=True):
            items.setdefault((kind, str(clip)), {})[field] = part
    return items


def encode_figures(figures: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Figures by name as arrays: names as the bytes of a JSON list, values in float64."""
    names = np.frombuffer(json.dumps(list(figures)).encode(), np.uint8)
    return {"names": names, "values": np.array([*figures.values()])}


def decode_figures(item: Item) -> dict[str, float]:
    """The figures that `encode_figures` was given."""
    names = json.loads(item["names"].tobytes())
    return dict(zip(names, map(float, item["values"]), strict=True))


def is_of_every_seed(figures: Mapping[str, float]) -> bool:
    """Whether a vocoder's natural variation is that of every other seed: by one, which tells most
    verdicts enough, nothing is known of the places where seeds differ.
    """
    return PLACED[0] in figures


def describe_origins(origins: Mapping[str, int]) -> str:
    """A line that says of how many clips the natural variation was stored, cached or measured."""
    counts = ", ".join(f"{count} {origin}" for origin, count in sorted(origins.items()))
    return f"the natural variation of {sum(origins.values())} clips: {counts}"


def compute_sound_probe(reference: np.ndarray, vowel: np.ndarray) -> np.ndarray:
    """The RMS of each stretch of a clip's reference and of its vowel [40] float32."""
    stretches = [*np.array_split(reference, PROBED), *np.array_split(vowel, PROBED_VOWEL)]
    return np.array([np.sqrt(np.square(stretch).mean()) for stretch in stretches], np.float32)


def compute_prosody_probe(durations: np.ndarray, f0_hz: np.ndarray) -> np.ndarray:
    """Some values of a clip's F0 and its number of frames [33] float32."""
    places = np.linspace(0, len(f0_hz) - 1, PROBED).astype(int)
    return np.append(f0_hz[places], durations.sum()).astype(np.float32)


def is_same_rendition(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two probes are of one rendition, to AGREE."""
    alike = one.shape == other.shape
    # Relative to the whole probe: quiet stretches may differ by more than their share.
    return alike and bool(np.linalg.norm(one - other) <= AGREE * np.linalg.norm(other))
