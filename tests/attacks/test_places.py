"""One place each: text that nobody vouches for becomes JSON, arrays and tensors come from a file,
files are written, and temporary ones.

Walks every command and every file of the rooms. Whoever calls one of these himself stands in a list
here, with the reason.
"""

import ast
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from kokoro_ane.core.errors import run_cli
from kokoro_ane.core.process import SCRATCH
from tests.builds import left_behind
from tests.commands import ran, table
from tests.house.test_house import ROOT
from tests.house.test_house import SOURCES as ALL

KINDS = {
    "json": {"json.loads", "json.load"},
    "tensors": {"np.load", "numpy.load", "torch.load", "load_file", "safe_open"},
    "writing": {
        ".write_text",
        ".write_bytes",
        "np.save",
        "np.savez",
        "np.savez_compressed",
        "torch.save",
        ".savefig",
        "soundfile.write",
        ".open(w)",
        "open(w)",
    },
    "naming": {".rename", "os.rename", "os.replace", "shutil.move"},
    "removing": {"shutil.rmtree", "os.remove"},
    "temporary": {"tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.NamedTemporaryFile"},
}
# a block in one of these writes what nobody sees yet
ASIDE = ("staged", "staged_together", "open_aside", "scratch", "TemporaryDirectory")
# File, kinds that it does itself, why.
ROWS = """
    mlprogram/src/mlprogram/files.py | json | the place for JSON, and for files of mlprogram
    core/errors.py | writing | to nowhere, in place of a closed stderr
    core/process.py | removing temporary | the place for temporary files
    core/staging.py | naming removing | the place for output
    core/manifest.py | writing | into the path aside that its builder gives
    core/tensor_files.py | tensors | the place for tensors
    core/export.py | json writing | normalizes a package that is still aside
    g2p/src/kokoro_g2p/training/loop.py | tensors | the state of one's own training, no pickled code
    runtimes/executorch/pte_file.py | writing | into the path aside that its builder gives
    runtimes/onnx/onnx_file.py | writing | into the folder aside that its builder gives
    runtimes/executorch/delegate_file.py | json writing | reads back the file that it wrote aside
    core/kokoro_int8/cache.py | writing | members of an archive into its scratch folder
    core/package_notes.py | writing | into the package aside that its builder gives
    g2p/src/kokoro_g2p/files.py | json tensors | the place for JSON, and the reader's for arrays
    g2p/src/kokoro_g2p/bundled.py | json | bundled, by hash
    eval/natural.py | json | bundled, by hash, or the user's cache
    g2p/src/kokoro_g2p/word_lists.py | json | bundled, by hash
    g2p/src/kokoro_g2p/training/misaki_lists.py | json | an installed package's, by hash
    g2p/src/kokoro_g2p/training/mandarin_words.py | json | an installed package's
    eval/metrics/listeners.py | tensors | an installed package's, no pickled code
    pipeline/vector_files.py | writing | into the folder aside
    pipeline/bundle_files.py | writing | into the folder aside
    g2p/src/kokoro_g2p/port/text_tables.py | tensors writing | into the bundle's folder aside
    g2p/src/kokoro_g2p/port/rule_program.py | writing | into the bundle's folder aside
    quantize/level.py | json tensors | a level's file: safetensors and its head, by hash
    bench/chain_speed.py | writing | a text, and a process's log, in a temporary folder; /proc
    pipeline/resume.py | writing | finished chunks of a book, which outlive a killed run on purpose
"""
OWN = {
    name: set(kinds.split())
    for name, kinds, _ in (line.strip().split(" | ") for line in ROWS.strip().splitlines())
}
# they measure in temporary folders of their own
SOURCES = [path for path in ALL if "mlprogram_benches" not in path.parts]
# of the repository's own data, and answers of processes that they start themselves: JSON and arrays
# only
BENCH = ("bench", "training")


MODULES = "np numpy torch json os shutil tempfile soundfile".split()


def called(node):
    """'np.load', '.write_text' for the method of any object, '.open(w)' where the mode writes."""
    base, dot, name = ast.unparse(node.func).rpartition(".")
    name = f"{base if base in MODULES else ''}{dot}{name}"
    modes = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    writes = any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
    return f"{name}(w)" if name.endswith("open") and writes else name


def own_calls(tree, inside=False):
    """Every call, and whether it stands in a block of one of ASIDE."""
    for child in ast.iter_child_nodes(tree):
        within = inside
        if isinstance(child, ast.With):
            names = {
                called(c) for item in child.items for c in ast.walk(item) if isinstance(c, ast.Call)
            }
            within = inside or any(name.rpartition(".")[2] in ASIDE for name in names)
        if isinstance(child, ast.Call):
            yield called(child), within
        yield from own_calls(child, within)


def kinds_of(text):
    calls = list(own_calls(ast.parse(text)))
    return {
        kind
        for name, inside in calls
        for kind, names in KINDS.items()
        if name in names and not (inside and kind in ("writing", "removing"))
    }


# what a file does itself is what OWN allows it, no more and no less
def test_each_kind_has_its_place():
    wrong = []
    for path in SOURCES:
        name, free = path.as_posix(), {"json", "tensors"} if path.parts[0] in BENCH else set()
        kinds = kinds_of((ROOT / path).read_text(encoding="utf-8")) - free
        allowed = OWN.get(name, set()) - free
        if kinds != allowed:
            wrong.append(f"{name}: does {sorted(kinds)}, allowed {sorted(allowed)}")
    assert not wrong, "\n".join(wrong)
    assert not OWN.keys() - {path.as_posix() for path in SOURCES}


@table(
    "text kind",
    """
    json.loads(x) | json
    np.load(x) | tensors
    path.write_text(x) | writing
    path.open('wb') | writing
    with path.open('w') as f: pass | writing
    a.rename(b) | naming
    shutil.rmtree(x) | removing
    tempfile.mkdtemp() | temporary
""",
)
def test_the_walk_sees_each(text, kind):
    assert kinds_of(text) == {kind}
    assert not kinds_of("with staged(p) as aside:\n    aside.write_text(x)\n    aside.open('w')")


OWN_GATE = {  # a main() that is called through another's gate
    "core/errors.py": "the gate itself",
    "kokoro_ane/cli.py": "hands on to the others",
    "mlprogram/src/mlprogram/__main__.py": "its own",
    "mlprogram/src/mlprogram/ops_doc.py": "writes one page",
}


def test_every_command_goes_through_the_one_gate():
    """run_cli turns a user's mistake into one line and exit 2, heeds SIGTERM, and keeps temporary
    files apart.
    """
    passed, past = set(), set()
    for path in SOURCES:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        for main in (
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name == "main" and node.args.args
        ):
            names = {name for name, _ in own_calls(tree)} | {
                ast.unparse(decorator) for decorator in main.decorator_list
            }
            (passed if names & {"command", "run_cli", "separate_temporary_files"} else past).add(
                path.as_posix()
            )
    assert past <= set(OWN_GATE)
    assert len(passed) > 25


LEAVES = """
import os, signal, sys, tempfile
from pathlib import Path
from kokoro_ane.core.errors import run_cli
def main(argv):
    Path(tempfile.mkdtemp(), "x").touch()       # as coremltools does
    if argv: os.kill(os.getpid(), getattr(signal, argv[0]))
    return 0
raise SystemExit(run_cli(main, sys.argv[1:]))
"""


@pytest.mark.parametrize("ends", ["", "SIGTERM", "SIGINT", "SIGKILL"])
def test_temporary_files_of_libraries_go_with_their_command(ends, tmp_path, capsys):
    command = [sys.executable, "-c", LEAVES, *filter(None, [ends])]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = ran(*command, env=environment)
    assert done.returncode == {"": 0, "SIGKILL": -signal.SIGKILL}.get(ends, 2)
    assert bool(list(tmp_path.rglob("x"))) == (ends == "SIGKILL")
    done = ran(*command[:3], env=environment)
    assert not list(tmp_path.iterdir())
    assert ("an earlier run was killed" in done.stderr) == (ends == "SIGKILL")


def test_temporary_folders_of_others_are_left_alone(tmp_path, monkeypatch):
    """A living process's, a link, and where no temporary folder can be made a command that needs
    none still runs.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").write_text("years of work")
    (tmp_path / f"{SCRATCH}link").symlink_to(tmp_path / "work")
    inner = []

    def main(_argv):
        inner.append(tempfile.gettempdir())
        if len(inner) < 2:
            # another command while this one lives
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
            assert run_cli(main, None) == 0
            assert Path(inner[0]).is_dir()
        return 0

    assert run_cli(main, None) == 0
    assert inner[0] != inner[1]
    assert left_behind(tmp_path / "work") == ["thesis.tex"]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing"))
    assert run_cli(lambda _: 0, None) == 0
