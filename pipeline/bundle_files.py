"""What a bundle holds, written aside and verified by opening it again.

write_bundle(Path("build/bundle-demo-p6"), checkpoint, Path("build"), "p6", ("us",))
data, checked = verify_bundle(Path("build/bundle-demo-p6"))
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.checkpoint import Checkpoint
from core.contract import LITERAL
from core.errors import CheckFailed, InputError
from core.manifest import Manifest
from core.output import strangers
from core.staging import read_json, sha256_of, staged, write_json
from core.tensor_files import read_npy
from g2p.lists import CMUDICT
from g2p.result import Dialect
from pipeline.assembly import NAME, Assembly, Parts
from pipeline.lexicon_file import write_lexicon
from pipeline.model_card import decision_for, model_card
from pipeline.runtimes import DEFAULT_RUNTIME, module_of, runtime_for
from pipeline.steps import Chain
from pipeline.vector_files import check_vectors, write_vectors

SUMS, CARD, NOTICES, VOCABULARY = "SHA256SUMS", "MODEL_CARD.md", "LICENSES.md", "vocabulary.json"
LICENSES = Path(__file__).parent / "licenses"
CONTENTS = [
    "| | |",
    "| --- | --- |",
    "| packages/ | Core ML packages or ONNX files, each with the manifest of its contract beside it |",
    "| manifest.json | what belongs together, with shapes, buckets and hashes |",
    "| voices/ | style packs [510, 1, 256]: .pt of PyTorch, .bin raw little-endian float32 |",
    "| vocabulary.json | phoneme symbol to id |",
    "| lexicon/ | word to phonemes, sorted, tab-separated |",
    "| vectors/ | inputs and outputs of every step of the conductor |",
]


def write_bundle(
    folder: Path,
    checkpoint: Checkpoint,
    build: Path,
    method: str,
    dialects: tuple[Dialect, ...],
    form: str = LITERAL,
    runtime: str = DEFAULT_RUNTIME,
) -> None:
    """Everything into `folder`, which appears when it is complete. CheckFailed: a rejected level. InputError: missing or mixed parts."""
    parts = Parts.found(checkpoint, build, method, form, runtime)
    decision, level = decision_for(build / "release" / "decision.json", Manifest.load(parts.vocoder).package_sha256)
    if level is not None and level["verdict"] == "REJECT":
        raise CheckFailed(f"{method} was judged and rejected: {'; '.join(level['reasons'])}; nothing was bundled")
    with staged(folder, bundle_of_ours) as aside:
        aside.mkdir()
        inside = _copied(parts, aside)
        write_json(aside / VOCABULARY, checkpoint.config.vocab)
        _write_voices(checkpoint, aside / "voices")
        for dialect in dialects:
            write_lexicon(aside / "lexicon" / f"{dialect}.tsv", dialect)
        _write_licenses(checkpoint, aside)
        vectors = _write_vectors(aside, checkpoint, inside)
        made_from = checkpoint.as_source
        g2p = aside / "packages" / parts.g2p.name if parts.g2p else None
        placed = Parts(*inside, aside / VOCABULARY, tuple(sorted((aside / "voices").iterdir())), g2p)
        assembly = Assembly.of(placed, aside, made_from, vectors).save(aside / NAME)
        (aside / CARD).write_text(model_card(assembly.data, decision, level, CONTENTS), encoding="utf-8")
        _write_sums(aside)


def _copied(parts: Parts, folder: Path) -> tuple[tuple[Path, ...], Path]:
    """Packages and manifests into packages/; where the encoder's and the vocoder's manifests are now."""
    place = folder / "packages"
    place.mkdir()
    for path in (*parts.encoders, parts.vocoder, *([parts.g2p] if parts.g2p else [])):
        manifest = Manifest.load(path)
        manifest.verify()
        copy = shutil.copytree if manifest.package_path.is_dir() else shutil.copy
        copy(manifest.package_path, place / manifest.package)
        shutil.copy(path, place / path.name)
    return tuple(place / path.name for path in parts.encoders), place / parts.vocoder.name


def _write_voices(checkpoint: Checkpoint, folder: Path) -> None:
    folder.mkdir()
    for name in checkpoint.voices:
        pack = checkpoint.voice(name)
        torch.save(pack, folder / f"{name}.pt")
        (folder / f"{name}.bin").write_bytes(pack.numpy().astype("<f4").tobytes())


def _write_vectors(folder: Path, checkpoint: Checkpoint, inside: tuple[tuple[Path, ...], Path]) -> Path:
    chain, packages = chain_in(inside, checkpoint.config.vocab, checkpoint.voice(checkpoint.voices[0]).numpy())
    write_vectors(folder / "vectors", chain, checkpoint.as_source, packages)
    return folder / "vectors"


def chain_in(manifests: tuple[tuple[Path, ...], Path], vocab: dict[str, int], voice: np.ndarray) -> tuple[Chain, dict[str, str]]:
    """The packages opened from where they lie by who executes them here, and their hashes by name."""
    opened = module_of(runtime_for(Manifest.load(manifests[1]).package)).open_manifests(*manifests)
    return Chain(vocab, voice, opened.encoder, opened.vocoder), opened.made_of


def _write_licenses(checkpoint: Checkpoint, folder: Path) -> None:
    """LICENSES.md says what is under what; licenses/ holds the texts."""
    (folder / "licenses").mkdir()
    flite = "made from speech of flite's voices, Carnegie Mellon University (permissive): licenses/flite.txt"
    weights = flite if checkpoint.name == "demo" else "Kokoro-82M by hexgrad, Apache-2.0: licenses/apache-2.0.txt"
    if checkpoint.name == "kokoro-int8":
        weights += ". On 8-bit grids: ONNX export of kokoro-onnx by thewh1teagle (MIT)"
    elif checkpoint.name not in ("demo", "kokoro-82m"):
        weights = f"checkpoint `{checkpoint.name}`: its licence is not known to this tool; do not distribute without it"
    for path in LICENSES.iterdir():
        if path.stem != "flite" or checkpoint.name == "demo":
            shutil.copy(path, folder / "licenses" / path.name)
    lines = ["# Licences of what is inside", "", "| what | licence |", "| --- | --- |", f"| weights in packages/, voices/ | {weights} |"]
    lines += ["| packages/G2P | kokoro-ane, Apache-2.0, trained on misaki's lexicon (Apache-2.0): licenses/apache-2.0.txt |"]
    lines += ["| lexicon/ | misaki 0.9.4 by hexgrad, Apache-2.0: licenses/apache-2.0.txt. Changed: JSON to one sorted table |"]
    lines += ["| lexicon/us.tsv, rows of `c` | CMUdict, Carnegie Mellon University (BSD): licenses/cmudict.txt. Changed: symbols |"]
    shutil.copy(CMUDICT.with_name("cmudict.LICENSE.txt"), folder / "licenses" / "cmudict.txt")
    lines += ["| network design in packages/ | Kokoro by hexgrad, Apache-2.0; iSTFTNet and StyleTTS 2 by their authors (MIT) |"]
    lines += ["| manifests, vectors/, model card | kokoro-ane, Apache-2.0: licenses/apache-2.0.txt |", ""]
    (folder / NOTICES).write_text("\n".join(lines), encoding="utf-8")


def _write_sums(folder: Path) -> None:
    """In the format of sha256sum -c."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def verify_bundle(folder: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Open it again: every file's hash, nothing beside them, one checkpoint, voices equal in both forms, every vector replayed.

    Returns the assembly's data and what was counted. Raises InputError naming the first file that is not as it was written, CheckFailed
    when a step of the conductor does not replay.
    """
    files = check_sums(folder)
    assembly = Assembly.load(folder / NAME)
    assembly.verify()
    voices = check_voices(folder / "voices")
    data = assembly.data
    manifests = tuple(folder / entry["file"] for entry in data["encoder"]), folder / data["vocoder"]["file"]
    vocab = read_json(folder / VOCABULARY, "a bundle holds it")
    chain, packages = chain_in(manifests, vocab, read_npy(folder / "vectors" / "voice.npy"))
    rows = check_vectors(folder / "vectors", chain, packages)
    missed = next((row for row in rows if not row["holds"]), None)
    if missed is not None:
        raise CheckFailed(f"{folder}: step {missed['step']} of {missed['utterance']} gives {missed['tensor']} at {missed['snr_db']} dB")
    return data, {"files": files, "voices": voices, "tensors": len(rows)}


def bundle_of_ours(folder: Path) -> str | None:
    """Why a folder is not one that `write_bundle` wrote, or None: for core.staging.staged."""
    try:
        own = sums_of(folder)
    except InputError as problem:
        return f"it is not a bundle: {problem}"
    return strangers(folder, {SUMS, *own}) if NAME in own and CARD in own else f"it is not a bundle: {SUMS} names no {NAME}"


def sums_of(folder: Path) -> dict[str, str]:
    """SHA256SUMS: hash by name. InputError when it is missing or something else."""
    if not (folder / SUMS).is_file():
        raise InputError(f"{folder / SUMS} does not exist: `python -m pipeline.bundle` writes a bundle")
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
        return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        raise InputError(f"{folder / SUMS} is no list of hashes and names: bundle again") from None


def check_sums(folder: Path) -> int:
    """Every file is as SHA256SUMS says and every file is in it; their number."""
    wanted = sums_of(folder)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {SUMS}
    for name in sorted(found ^ set(wanted)):
        raise InputError(f"{folder / name} {'is not part of the bundle' if name in found else 'is missing'}: bundle again")
    for name, digest in wanted.items():
        if sha256_of(folder / name) != digest:
            raise InputError(f"{folder / name} was changed after the bundle was written: bundle again")
    return len(wanted)


def check_voices(folder: Path) -> int:
    """Each voice reads the same from both files; their number."""
    from core.voices import read_pack

    names = {path.stem for path in folder.iterdir()}
    for name in sorted(names):
        if not torch.equal(read_pack(folder / f"{name}.pt"), read_pack(folder / f"{name}.bin")):
            raise InputError(f"{folder}: {name}.pt and {name}.bin are different voices: bundle again")
    return len(names)
