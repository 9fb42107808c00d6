"""A privacy statement as data, and how it is written: Markdown, HTML, JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ferrodp._base import _html
from ferrodp._base._pictures import power

__all__ = ["Statement"]

_SECTIONS = {
    "protected": "What is protected",
    "released": "What is released",
    "guarantee": "Guarantee",
    "curve": "Epsilon at other deltas",
    "attackers": "What an attacker gains",
    "assumptions": "Assumptions",
    "proof": "Proof",
    "details": "Details",
    "versions": "Versions",
}
_TITLES = {
    "epsilon": "epsilon, at most",
    "epsilon_at_least": "exact epsilon, at least",
    "holds": "it holds",
    "budget_epsilon": "epsilon of the budget",
    "budget_delta": "delta of the budget",
    "epsilon_charged": "epsilon charged so far, at most",
    "epsilon_charged_holds": "what was charged holds",
    "epsilon_of_charges_at_least": "exact epsilon of the charges, at least",
    "epsilon_at_any_time": "epsilon so far, whenever it is read, at most",
    "measure": "charges are added up as",
    "event": "mechanism",
}
"""What people read in place of the names that JSON has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is promised about a release, to whom, and under which assumptions; `print` shows it as Markdown.

    Attributes
    ----------
    subject : str
        What it is about.
    protected : dict
        The unit of privacy, the neighboring relation and what it means.
    released : tuple of dict
        What is released, how often and, of a ledger, when: the type and the public parameters of each event.
    guarantee : dict
        The certified bounds on ε at the stated δ; of a ledger also the budget, and bounds that hold at any time.
    curve : tuple of dict
        Bounds on ε at other values of δ.
    attackers : tuple of str
        The same in plain words: what the best attack can achieve, in cases out of 100.
    assumptions : tuple of str
        What has to be true.
    proof : str
        The label of the guarantee, and what proves it.
    details : dict
        What the caller adds: who, why, where it is published.
    versions : dict
        Of the programs; of a ledger, the head of its log.

    Examples
    --------
    >>> import ferrodp as fd
    >>> found = fd.statement(fd.LaplaceMechanism(scale=2.0, l1_sensitivity=1.0), delta=1e-6, unit="patient")
    >>> found.protected["unit"], round(found.guarantee["epsilon"], 3)
    ('patient', 0.5)
    >>> found.to_markdown().splitlines()[0]
    '# Privacy statement: LaplaceMechanism'
    >>> found.to_html().startswith("<article"), found.to_dict()["format"]
    (True, 'ferrodp.statement')
    """

    subject: str
    protected: Mapping[str, str]
    released: tuple[Mapping[str, Any], ...]
    guarantee: Mapping[str, Any]
    curve: tuple[Mapping[str, float], ...]
    attackers: tuple[str, ...]
    assumptions: tuple[str, ...]
    proof: str
    details: Mapping[str, str]
    versions: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data; an infinite bound is the text "inf"."""
        data: dict[str, Any] = _plain(asdict(self))
        return {"format": "ferrodp.statement", "version": 1, **data}

    def to_json(self) -> str:
        """Return the data as JSON text.

        Examples
        --------
        >>> import ferrodp as fd
        >>> fd.statement(fd.events.LaplaceEvent(noise_multiplier=2.0), delta=1e-6).to_json().splitlines()[1]
        '  "format": "ferrodp.statement",'
        """
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        lines = [f"# Privacy statement: {_escaped(self.subject)}", "", _escaped(self._summary())]
        for title, content in self._sections():
            lines += ["", f"## {title}", ""]
            if isinstance(content, str):
                lines.append(_escaped(content))
            elif isinstance(content, Mapping):
                lines += _markdown_table(("", ""), _rows(content))
            elif isinstance(content[0], str):
                lines += [f"- {_escaped(each)}" for each in content]
            else:
                names = list(dict.fromkeys(name for each in content for name in each))
                rows = [[_shown(name, each.get(name, "")) for name in names] for each in content]
                lines += _markdown_table(list(map(_title, names)), rows)
        return "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """Return it as an HTML fragment, an ``article``."""
        parts = ['<article class="ferrodp-statement">', f"<h1>Privacy statement: {html.escape(self.subject)}</h1>"]
        parts.append(f"<p>{html.escape(self._summary())}</p>")
        for title, content in self._sections():
            parts.append(f"<h2>{title}</h2>")
            if isinstance(content, str):
                parts.append(f"<p>{html.escape(content)}</p>")
            elif isinstance(content, Mapping):
                parts.append(_html.table("", (), _rows(content), whole=True))
            elif isinstance(content[0], str):
                parts.append("<ul>" + "".join(f"<li>{html.escape(each)}</li>" for each in content) + "</ul>")
            else:
                names = list(dict.fromkeys(name for each in content for name in each))
                rows = [[_shown(name, each.get(name, "")) for name in names] for each in content]
                parts.append(_html.table("", list(map(_title, names)), rows, whole=True))
        return "\n".join([*parts, "</article>"]) + "\n"

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        return self.to_markdown()

    def _summary(self) -> str:
        """Return the guarantee as one sentence."""
        epsilon, delta = (_shown(name, self.guarantee[name]) for name in ("epsilon", "delta"))
        what = "Everything that is ever charged to it" if self._is_of_a_scope() else "Everything that it releases"
        if epsilon == "no bound":
            return f"{what} has no proven epsilon at delta = {delta}."
        return (
            f"{what} is differentially private for one {self.protected['unit']}, with epsilon at most {epsilon} at "
            f"delta = {delta}."
        )

    def _is_of_a_scope(self) -> bool:
        return "budget_epsilon" in self.guarantee

    def _sections(self) -> Iterator[tuple[str, Any]]:
        """Yield the titles and contents of what is not empty."""
        for name, title in _SECTIONS.items():
            content = getattr(self, name)
            if content and name == "curve" and self._is_of_a_scope():
                yield f"{title}, of the charges so far, if they had been fixed in advance", content
            elif content:
                yield title, content


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return "inf" if value == float("inf") else value


def _rows(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(_title(name), _shown(name, value)) for name, value in content.items()]


def _title(name: str) -> str:
    return _TITLES.get(name, name.replace("_", " "))


def _shown(name: str, value: Any) -> str:
    """Write a value for people: bounds on ε with six digits, on their own side; JSON has all digits."""
    if value == float("inf"):
        return "no bound"
    if value is None:
        return "unknown"
    if isinstance(value, float) and "epsilon" in name:
        return _html.at_least(value) if name.endswith("at_least") else _html.at_most(value)
    if isinstance(value, float) and "delta" in name:
        return power(value) if float(f"{value:.3e}") == value else repr(value)
    return str(value)


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it stands, on one line."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in " ".join(text.split()))


def _markdown_table(header: Any, rows: Any) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(_escaped(cell) if cell != "---" else cell for cell in line) + " |" for line in lines]
