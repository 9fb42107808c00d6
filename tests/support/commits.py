"""Checks the messages of commits: `area: what is now true`, and a reason where native code changes.

    python tests/support/commits.py [COMMIT]    commits after COMMIT; by default those after the one that made the rule

A subject has at most 72 characters and begins with an area of the list, or with several, separated by commas. A commit
that changes `rust/` has a body, which says why.
"""

import re
import subprocess
import sys

RULE_SINCE = "b4b104d340e345a11bee4bcab8807cdde62de873"
LONGEST = 72
AREAS = [
    "accounting",
    "arrays",
    "audit",
    "bench",
    "budget",
    "build",
    "changelog",
    "check",
    "ci",
    "cli",
    "clip",
    "clipping",
    "columns",
    "core",
    "correlated",
    "counters",
    "demo",
    "discrete",
    "distributed",
    "docs",
    "engine",
    "errors",
    "events",
    "explorer",
    "federated",
    "files",
    "flower",
    "house",
    "integrations",
    "jax",
    "ledger",
    "mechanisms",
    "mindspore",
    "noise",
    "numerics",
    "nvflare",
    "opacus",
    "packaging",
    "plan",
    "quantiles",
    "random",
    "release",
    "sample",
    "select",
    "sklearn",
    "statements",
    "statistics",
    "subset",
    "sums",
    "tests",
    "tickets",
    "torch",
    "training",
    "trees",
    "types",
]


def problems(subject: str, body: str, files: list[str]) -> list[str]:
    """Return what is wrong with a commit's message."""
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters; at most {LONGEST} fit")
    areas = re.match(r"([a-z, ]+): \S", subject)
    if not areas:
        found.append("the subject does not begin with `area: `")
    else:
        unknown = [area for area in re.split(r", *", areas[1]) if area not in AREAS]
        found += [f"{area!r} is no area; see tests/support/commits.py" for area in unknown]
    if any(file.startswith("rust/") for file in files) and not body.strip():
        found.append("native code changes, and no body says why")
    return found


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Print the problems of all commits since the rule was made."""
    since = sys.argv[1] if len(sys.argv) > 1 else RULE_SINCE
    known = subprocess.run(["git", "cat-file", "-e", f"{since}^{{commit}}"], capture_output=True).returncode == 0
    # A shallow clone lacks the commit; its newest commit is then the one to check.
    commits = _git("rev-list", "--no-merges", *([f"{since}..HEAD"] if known else ["--max-count=1", "HEAD"])).split()
    wrong = 0
    for commit in commits:
        subject, _, body = _git("show", "--no-patch", "--format=%s%n%b", commit).partition("\n")
        for problem in problems(
            subject, body, _git("diff-tree", "--no-commit-id", "--name-only", "-r", commit).split()
        ):
            print(f"{commit[:10]} {subject!r}: {problem}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
