"""What the package says of itself is complete, says one thing everywhere, and can be followed from a wheel."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
SOURCES = sorted(path for path in (ROOT / "python").rglob("*.py*") if path.suffix in (".py", ".pyi"))


def test_the_links_of_a_project_are_there_and_lead_to_one_repository():
    links = PROJECT["urls"]

    assert {"Documentation", "Repository", "Changelog", "Issues", "Security"} == links.keys()
    assert links["Repository"] == CARGO["repository"]
    assert all("ferrodp" in link for link in links.values())


def test_there_is_a_classifier_for_each_python_from_the_least_on():
    least = int(PROJECT["requires-python"].removeprefix(">=3."))
    minors = sorted(
        int(found[1])
        for found in (re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", c) for c in PROJECT["classifiers"])
        if found
    )

    assert minors == list(range(least, minors[-1] + 1))
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (ROOT / "python" / "ferrodp" / "py.typed").exists()


def test_hosted_machines_test_each_python_that_has_a_classifier():
    tested = re.search(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "test.yml").read_text())

    for minor in re.findall(r"Python :: 3\.(\d+)", " ".join(PROJECT["classifiers"])):
        assert f'"3.{minor}"' in tested[1]


def test_versions_and_licenses_are_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()

    assert f"\nversion: {CARGO['version']}\n" in citation
    assert re.findall(r"^  - (MIT|Apache-2.0)$", citation, re.MULTILINE) == CARGO["license"].split(" OR ")
    assert PROJECT["license"] == CARGO["license"]


def test_texts_in_a_wheel_name_no_file_that_is_not_in_it():
    """Docstrings and messages may lead to the repository by its address, where a wheel's reader can follow."""
    named = {
        str(path): re.findall(r"\b[\w/.-]+\.md\b|\b(?:docs|rust|tests|benches)/[\w/.-]+", text)
        for path in SOURCES
        for text in [re.sub(r"https://\S+", "", path.read_text())]
    }

    assert {path: names for path, names in named.items() if names} == {}


def test_addresses_in_a_wheel_lead_to_files_of_the_repository():
    texts = {path: path.read_text() for path in SOURCES}
    found = [
        (path, name.format(place))
        for path, text in texts.items()
        for pattern, name in [
            (r"https://github\.com/ferrodp/ferrodp/blob/main/([\w./-]*\w)", "{}"),
            (r"https://ferrodp\.github\.io/ferrodp/([\w/-]+)\.html", "docs/{}.md"),
        ]
        for place in re.findall(pattern, text)
    ]

    assert found
    assert [(str(path), place) for path, place in found if not (ROOT / place).exists()] == []
