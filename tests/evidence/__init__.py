"""Evidence for security requirements: the tests that verify them, collected from their markers `asvs` and `api_top_10`.

`python -m tests.evidence` writes docs/reference/security-evidence.md. `requirements.toml` has a sentence for each
requirement, and the reason if one does not apply, is not met, or is met without a test.
"""

import tomllib
from pathlib import Path

import msgspec

from tests.support.folders import ROOT
from tests.support.markers import marked_tests

PAGE = ROOT / "docs" / "reference" / "security-evidence.md"
MARKERS = ("asvs", "api_top_10")
WITHOUT_TESTS = ("does not apply", "not met", "untested")
"""First words of a reason why no test holds a requirement. `partly`: tests hold a part of it."""

_HEAD = """# Evidence for security requirements

`make docs` writes this page from the markers of tests. The requirements are those of
[OWASP ASVS][asvs] 5.0, levels 1 and 2, and of the
[OWASP API Security Top 10](https://owasp.org/API-Security/) of 2023. The sentences are our
summaries; the text of the standard is authoritative. The [threat model](../explanation/security.md)
lists what is protected.

[asvs]: https://owasp.org/www-project-application-security-verification-standard/
"""


class Requirement(msgspec.Struct, frozen=True):
    """A requirement: our sentence for it, and why no test holds it, or not all of it; "" where tests do."""

    name: str
    sentence: str
    reason: str = ""

    @property
    def state(self) -> str:
        return self.reason.partition(":")[0] or "met"


class Standard(msgspec.Struct, frozen=True):
    """A standard, its chapters by their numbers, and its requirements."""

    title: str
    chapters: dict[str, str]
    requirements: dict[str, str | tuple[str, str]]

    def of_chapter(self, chapter: str) -> list[Requirement]:
        return [
            requirement
            for requirement in self.all()
            if requirement.name == chapter or requirement.name.startswith(f"{chapter}.")
        ]

    def all(self) -> list[Requirement]:
        return [
            Requirement(name, *((output,) if isinstance(output, str) else output))
            for name, output in self.requirements.items()
        ]


def standards() -> list[Standard]:
    text = (Path(__file__).parent / "requirements.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text)["standard"], list[Standard])


def evidence_page() -> str:
    tests, lines = marked_tests(*MARKERS), [_HEAD]
    for standard in standards():
        states = [requirement.state for requirement in standard.all()]
        counts = ", ".join(f"{states.count(state)} {state}" for state in ("met", "partly", *WITHOUT_TESTS))
        lines.append(f"## {standard.title}\n\n{len(states)} requirements: {counts}.\n")
        for chapter, title in standard.chapters.items():
            lines.append(f"### {title}\n\n| requirement | what it asks for | evidence |\n|---|---|---|")
            lines += [
                _row(requirement, tests.get(requirement.name, [])) for requirement in standard.of_chapter(chapter)
            ]
            lines.append("")
    return "\n".join(lines)


def _row(requirement: Requirement, tests: list[str]) -> str:
    reason = [f"**{requirement.state}**{requirement.reason.removeprefix(requirement.state)}"]
    evidence = (reason if requirement.reason else []) + [f"`{test}`" for test in tests]
    return f"| {requirement.name} | {requirement.sentence} | {', '.join(evidence)} |"
