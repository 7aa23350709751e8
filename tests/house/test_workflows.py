"""The workflows of a hosted CI: actionlint finds nothing, and each step runs here too.

python -m pytest tests/house/test_workflows.py -q [-m slow]
"""

import os
import re

import pytest
import yaml

from tests.commands import ROOT, ran

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def commands(workflow):
    """What the jobs run, a matrix's lines in place of its variable."""
    for job in workflow["jobs"].values():
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [])
        for step in job["steps"]:
            run = step.get("run", "")
            yield from [row["run"] for row in rows] if "matrix.run" in run else [run] * bool(run)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_step_is_a_make_target_or_a_script_of_ci_and_a_job_has_half_an_hour(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert all(job["timeout-minutes"] <= 30 for job in workflow["jobs"].values())
    lines = [*commands(workflow)]
    assert lines
    for line in lines:
        name = line.split()[0]
        if name == "make":
            assert ran("bash", "-c", line.replace("make ", "make -n ", 1)).returncode == 0, line
        else:
            assert name.startswith(".ci/"), line
            assert os.access(ROOT / name, os.X_OK), line


def test_every_folder_of_slow_tests_has_a_job():
    text = (ROOT / ".github" / "workflows" / "linux.yml").read_text(encoding="utf-8")
    named = {word for words in re.findall(r'TESTS="(.*)"', text) for word in words.split()}
    slow = [
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "g2p/tests", "mlprogram/tests")
        for path in (ROOT / folder).rglob("test_*.py")
        if "mark.slow" in path.read_text(encoding="utf-8")
    ]
    # README to the letter takes 20 minutes of real Kokoro
    rest = [name for name in slow if not name.startswith((*named, "tests/house"))]
    assert rest == []


@pytest.mark.slow
def test_actionlint_finds_nothing_and_a_mistake(tmp_path):
    done = ran(ROOT / ".ci" / "workflows")
    assert done.returncode == 0, done.stdout + done.stderr
    text = FILES[0].read_text(encoding="utf-8")
    (tmp_path / "wrong.yml").write_text(text.replace("matrix.name", "matrix.nome"))
    done = ran(ROOT / ".ci" / "workflows", tmp_path / "wrong.yml")
    assert done.returncode == 1
    assert "nome" in done.stdout
