"""Write a bundle's folder aside, and verify one by opening it as an app does.

write_bundle(Path("build/bundle-p6"), PackageRequest(checkpoint, Path("build"), "p6"))
data, checked = verify_bundle(Path("build/bundle-p6"))
write_page(Path("build/bundle-p6"))  # README.md, as the hub reads it
"""

import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core import (
    CheckFailed,
    Checkpoint,
    InputError,
    Manifest,
    OwnFile,
    Voice,
    check_implied,
    copy_package,
    describe_no_speaker,
    hash_content,
    is_of_finder,
    json_text,
    not_releasable,
    read_json,
    read_npy,
    recover,
    sha256_of,
    staged,
    strangers,
)
from kokoro_ane.pipeline.assembly import (
    NAME,
    TEXT,
    VECTORS,
    VOCABULARY,
    VOICES,
    assemble,
    read_assembly,
    verify_assembly,
)
from kokoro_ane.pipeline.decision_file import decision_for, explain_unattested, explain_withheld
from kokoro_ane.pipeline.model_card import METADATA, write_model_card
from kokoro_ane.pipeline.step_comparison import GOOD
from kokoro_ane.pipeline.synthesis import Chain
from kokoro_ane.pipeline.vector_files import STATISTICS, VOICE, check_vectors, write_vectors
from kokoro_ane.pipeline.voice_file import STATISTICS_SUFFIX, SUFFIX, decode_pack, encode_pack
from kokoro_ane.quantize import PackageRequest
from kokoro_ane.runtimes import (
    DEFAULT_RUNTIME,
    choose_runtime_for,
    find_files,
    module_of,
    open_voice,
    read_predictor,
    require_genuine,
)
from kokoro_ane.vocoder import round_to_half
from kokoro_g2p import DATA, Language, languages_for, write_text_tables

SUMS, CARD, NOTICES = "SHA256SUMS", "MODEL_CARD.md", "LICENSES.md"
PAGE = "README.md"  # the card under the name that the hub shows
PRODUCT_COMMAND = "kokoro-ane release --product"
LICENSES = Path(__file__).parent / "licenses"
LICENSED = """# Licences of what is inside

| what | licence |
| --- | --- |
| weights in packages/, voices/ | {weights} |
| text/ | kokoro-ane, Apache-2.0, trained on misaki's lexicon (Apache-2.0): \
licenses/apache-2.0.txt |
| text/, words | misaki 0.9.4 by hexgrad, Apache-2.0: licenses/apache-2.0.txt. Changed: one \
sorted table |
| text/, words of `c` | CMUdict, Carnegie Mellon University (BSD): licenses/cmudict.txt. \
Changed: symbols |
| text/, the tagger | statistics derived from WordNet and a Debian word list: licenses/tagger.txt |
| network design in packages/ | Kokoro by hexgrad, Apache-2.0; iSTFTNet and StyleTTS 2 by their \
authors (MIT) |
| manifests, vectors/, model card | kokoro-ane, Apache-2.0: licenses/apache-2.0.txt |
"""


def write_bundle(
    folder: Path,
    request: PackageRequest,
    runtime: str = DEFAULT_RUNTIME,
    dialects: tuple[Language, ...] | None = None,
    product: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None,
    without: Collection[str] = (),
) -> None:
    """Write a bundle to `folder`, which appears when it is complete.

    dialects: languages of the text; None for those that the voices speak. product: the product
    decision, and the product in it that is bundled. without: domains of one-off forms that the
    rules leave out.

    Raises CheckFailed: a rejected level; InputError: missing or mixed parts, or others than the
    decision judged.
    """
    checkpoint = request.checkpoint
    encoder_paths, vocoder_path = find_files(runtime, request)
    encoders = [Manifest.load(path) for path in encoder_paths]
    vocoder = Manifest.load(vocoder_path)
    if product:
        # a package on one side only is as wrong as one of another hash
        packages = {part.package: part.package_sha256 for part in (*encoders, vocoder)}
        judged: Mapping[str, str] = product[1]["packages"]
        for name in sorted({*packages, *judged}):
            if packages.get(name) != judged.get(name):
                raise InputError(
                    f"{name} is not what the product decision judged: run `{PRODUCT_COMMAND}` again"
                )
    # a package that is called w8a8 holds what w8a8 stores
    require_genuine(vocoder, request.level)
    decision_path = request.build / "release" / "decision.json"
    # By hash: a decision about another build of the level does not count.
    decision, level = decision_for(decision_path, vocoder.package_sha256)
    if level is not None and level["verdict"] == "REJECT":
        raise CheckFailed(
            f"{request.method} was judged and rejected: {'; '.join(level['reasons'])}; nothing was"
            " bundled"
        )
    # everything is written aside: a folder of that name is a whole bundle or none
    with staged(folder, bundle_of_ours) as aside:
        packages_folder = aside / "packages"
        packages_folder.mkdir(parents=True)
        encoders = [copy_verified(encoder, packages_folder) for encoder in encoders]
        vocoder = copy_verified(vocoder, packages_folder)
        (aside / VOCABULARY).write_text(json_text(checkpoint.config.vocab), encoding="utf-8")
        (aside / VOICES).mkdir()
        # a voice is a style table and, in the default layout, its statistics
        predictor = read_predictor(vocoder)
        voices = {name: open_voice(checkpoint, name, predictor) for name in checkpoint.voices}
        for name, voice in voices.items():
            (aside / VOICES / f"{name}{SUFFIX}").write_bytes(encode_pack(voice.pack))
            if predictor:
                # little-endian fp16, as a package takes it
                content = round_to_half(voice.statistics).astype("<f2").tobytes()
                (aside / VOICES / f"{name}{STATISTICS_SUFFIX}").write_bytes(content)
        spoken = languages_for(checkpoint.voices)
        for language in dialects or spoken:
            if language not in spoken:
                print(describe_no_speaker(language, checkpoint.name), file=sys.stderr)
            write_text_tables(aside / TEXT, language, without, dialects or spoken)
        _write_licenses(checkpoint, aside)
        # vectors come from the copies inside, so that what is checked is what ships
        voice = voices[checkpoint.voices[0]]
        chain, made_of = open_chain(encoders, vocoder, checkpoint.config.vocab, voice)
        write_vectors(aside / VECTORS, chain, checkpoint.as_source, made_of)
        # a product needs both decisions: the level's, and that of the whole chain
        withheld = explain_withheld(decision, level)
        if product:
            withheld = withheld or explain_unattested(product[0], PRODUCT_COMMAND)
        # one package that may not be released withholds the whole bundle
        if not all(part.releasable for part in (*encoders, vocoder)):
            withheld = not_releasable(checkpoint.name)
        data = assemble(aside, encoders, vocoder, checkpoint.as_source, withheld)
        (aside / NAME).write_text(json_text(data), encoding="utf-8")
        card = write_model_card(decision_path, data, decision, level, product and product[1])
        (aside / CARD).write_text(card, encoding="utf-8")
        write_sums(aside)


def copy_verified(manifest: Manifest, folder: Path) -> Manifest:
    """Copy a package, after its hash was verified, with its manifest into `folder`; return the
    manifest there.
    """
    manifest.verify()
    # What is damaged has been refused, and is never copied.
    copy_package(manifest.package_path, folder / manifest.package)
    return replace(manifest, path=Path(shutil.copy(manifest.path, folder)))


def open_chain(
    encoders: Sequence[Manifest], vocoder: Manifest, vocab: dict[str, int], voice: Voice
) -> tuple[Chain, dict[str, str]]:
    """Open the packages where they lie by the runtime that executes them here; return the chain and
    the hashes of the packages by name.
    """
    module = module_of(choose_runtime_for(vocoder.package))
    opened = module.open_manifests(tuple(one.path for one in encoders), vocoder.path)
    return Chain(vocab, voice, opened.encoder, opened.vocoder), opened.made_of


def _write_licenses(checkpoint: Checkpoint, folder: Path) -> None:
    """Write LICENSES.md, which names the licence of each part, and licenses/, which holds the
    texts.
    """
    weights = "Kokoro-82M by hexgrad, Apache-2.0: licenses/apache-2.0.txt"
    if checkpoint.name == "kokoro-int8":
        weights += ". On 8-bit grids: ONNX export of kokoro-onnx by thewh1teagle (MIT)"
    elif checkpoint.name != "kokoro-82m":
        weights = (
            f"checkpoint `{checkpoint.name}`: its licence is not known to this tool; do not"
            " distribute without it"
        )
    shutil.copytree(LICENSES, folder / "licenses")
    for name in ("cmudict", "tagger"):
        shutil.copy(DATA / f"{name}.LICENSE.txt", folder / "licenses" / f"{name}.txt")
    (folder / NOTICES).write_text(LICENSED.format(weights=weights), encoding="utf-8")


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS of every file, in the format of sha256sum -c."""
    # Sorted, so that the same files give the same list.
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def verify_bundle(folder: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Verify a bundle: the hash of every file, no file beside them, one checkpoint, finite voices,
    and every vector replayed.

    Returns its manifest.json and the counts of what was verified. Raises InputError that names the
    first file which is not as it was written, CheckFailed when a step of the chain does not replay.
    """
    # a run that wrote it may have been killed between two renames, or while it wrote the page
    recover(folder.parent)
    recover(folder)
    sums = read_sums(folder)
    paths = [path for path in folder.rglob("*") if path.is_file() and not is_of_finder(path.name)]
    files = {path.relative_to(folder).as_posix() for path in paths} - {SUMS}
    # The first by name is reported, whichever side lacks it.
    for name in sorted(files ^ set(sums)):
        raise InputError(
            f"{folder / name} {'is not part of the bundle' if name in files else 'is missing'}:"
            " bundle again"
        )
    for name, digest in sums.items():
        if hash_content(folder / name) != digest:
            raise InputError(
                f"{folder / name} was changed after the bundle was written: bundle again"
            )
    data = read_assembly(folder)
    verify_assembly(folder, data, sums)
    voices = [folder / name for name in sums if name.startswith(f"{VOICES}/")]
    for path in voices:
        content = path.read_bytes()
        is_table = path.suffix == SUFFIX
        # A style table is fp32, statistics are fp16.
        numbers = decode_pack(content) if is_table else np.frombuffer(content, "<f2")
        if not np.isfinite(numbers).all():
            raise InputError(f"{path} holds NaN or infinity: bundle again")
    # from here on the bundle is used as an app uses it: opened by its manifest, and run
    *encoders, vocoder = [
        Manifest.load(folder / entry["file"]) for entry in (*data["encoder"], data["vocoder"])
    ]
    vocab = read_json(folder / VOCABULARY, "a bundle holds it")
    voice = Voice(*(read_npy(folder / VECTORS / name) for name in (VOICE, STATISTICS)))
    chain, packages = open_chain(encoders, vocoder, vocab, voice)
    rows = check_vectors(folder / VECTORS, chain, packages)
    missed = next((row for row in rows if row.verdict != GOOD), None)
    if missed is not None:
        raise CheckFailed(f"{folder}: {missed.where} {missed.name} at {missed.snr_db} dB")
    return data, {"files": len(files), "voices": len(data["voices"]["files"]), "tensors": len(rows)}


def write_page(folder: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Verify a bundle and write its card once more as README.md; return what `verify_bundle` does.
    Raises InputError for a README.md that is not the card, and for a card of an older version.
    """
    # before the bundle is read: a file of the user's is no damage
    page = check_implied(folder / PAGE, OwnFile(_find_foreign_page))
    verified = verify_bundle(folder)
    card = (folder / CARD).read_text(encoding="utf-8")
    if not card.startswith(METADATA):
        raise InputError(f"{folder / CARD} has no metadata for the hub: bundle again")
    with staged(page, OwnFile(_find_foreign_page)) as aside:
        aside.write_text(card, encoding="utf-8")
    return verified


def _find_foreign_page(page: Path) -> str | None:
    return None if PAGE in read_sums(page.parent) else f"it is no copy of {CARD}"


def bundle_of_ours(folder: Path) -> str | None:
    """Return why `write_bundle` did not write a folder, or None: for core.staging.staged."""
    try:
        sums = read_sums(folder)
    except InputError as problem:
        return f"it is not a bundle: {problem}"
    if NAME in sums and CARD in sums:
        return strangers(folder, {SUMS, *sums})
    return f"it is not a bundle: {SUMS} names no {NAME}"


def read_sums(folder: Path) -> dict[str, str]:
    """Read SHA256SUMS: hash by name, and with them README.md where it is a copy of the card. Raises
    InputError when it is missing or no such list.
    """
    if not (folder / SUMS).is_file():
        raise InputError(f"{folder / SUMS} does not exist: `kokoro-ane bundle` writes a bundle")
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
        sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        raise InputError(f"{folder / SUMS} is no list of hashes and names: bundle again") from None
    page = folder / PAGE
    # Only a copy of the card may stand there, and it is in no list.
    if page.is_file() and sha256_of(page) == sums.get(CARD):
        sums[PAGE] = sums[CARD]
    return sums
