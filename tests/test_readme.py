"""What the README and the docs tell a newcomer to type exists: targets, variables, modules, options, files."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = "text"  # the language of a block that shows what a command prints
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
PLACEHOLDER = re.compile(r"<[^>]*>")


def commands() -> list[tuple[str, list[str]]]:
    """(page, words) of every `make …` and `python -m …` in a block; what is optional there is taken too."""
    found = []
    for page in PAGES:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        for block in (text for language, text in blocks if language != PRINTED):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(PLACEHOLDER.sub("x", line.replace("[", " ").replace("]", " ")), comments=True)
                words = [word for word in words if word != "…"]
                if words[:1] == ["make"] or words[:2] == ["python", "-m"]:
                    found.append((page.name, words))
    return found


COMMANDS = commands()
MADE = [(page, words) for page, words in COMMANDS if words[0] == "make"]
RUN = [(page, words) for page, words in COMMANDS if words[0] == "python"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def named(commands: list[tuple[str, list[str]]]) -> list[object]:
    return [pytest.param(words, id=f"{page}: {' '.join(words)}"[:100]) for page, words in commands]


def test_there_is_something_to_type() -> None:
    assert len(MADE) >= 8
    assert len(RUN) >= 5


@pytest.mark.parametrize("words", named(MADE))
def test_make_knows_it(words: list[str]) -> None:
    variables = {word.split("=", 1)[0] for word in words[1:] if "=" in word}
    targets = [word for word in words[1:] if "=" not in word]
    offered = re.search(r"^OPTIONS := (.*)$", MAKEFILE, re.MULTILINE)
    assert offered is not None
    assert variables <= {*offered[1].split(), "PYTHON"}
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:.*## ", MAKEFILE, re.MULTILINE), target


@pytest.mark.parametrize("words", named(RUN))
def test_python_knows_it(words: list[str]) -> None:
    module, rest = words[2], words[3:]
    if module == "venv":
        return
    options = {word.split("=", 1)[0] for word in rest if word.startswith("--")}
    is_command = rest[:1] and re.fullmatch(r"[a-z]+", rest[0]) and module == "analysis"
    shown = subprocess.run(
        [sys.executable, "-m", module, *([rest[0]] if is_command else []), "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    missing = {option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", shown.stdout)}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_every_target_of_make_is_told_of() -> None:
    said = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    targets = re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE)
    assert [target for target in targets if f"make {target}" not in said] == []


def test_every_package_has_its_reason() -> None:
    """Each runtime requirement of ours, not those that they bring along, stands in the README's table."""
    own = (ROOT / "requirements.txt").read_text(encoding="utf-8").split("\n\n")[0]
    names = re.findall(r"^([\w-]+)==", own, re.MULTILINE)
    names += re.findall(r"^([\w-]+)==", (ROOT / "requirements-demo.txt").read_text(encoding="utf-8"), re.MULTILINE)
    rows = re.findall(r"^\| ([\w ,-]+) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    told = {name.strip().lower() for row in rows for name in row.split(",")}
    assert [name for name in names if name.lower() not in told] == []
