"""The results as Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.soak.engines import ENGINES
from benchmarks.soak.scenarios import ADVERSARY, SCENARIOS

__all__ = ["markdown"]


def markdown(results: dict[str, Any]) -> str:
    """Return the whole report: a section for each scenario, with a column for each engine."""
    machine, runs = results["machine"], results["runs"]
    versions = [f"Python {machine['versions']['Python']}", f"Django {machine['versions']['Django']}"]
    versions += sorted({version for run in runs for version in run["versions"]})
    seconds = sum(run["seconds"] for run in runs if "asked" not in run)
    where = ", ".join([machine["cpu"], f"{machine['cores']} cores", machine["memory"], machine["os"], *versions])
    parts = [
        "# What the last soak showed",
        f"Written by `python -m benchmarks.soak {_options(results)}` on {machine['date'][:10]}, "
        f"in {_duration(seconds)}, with seed {results['seed']}: {where}. "
        "What was done and checked is in the [README](README.md).",
        _verdict(runs),
    ]
    for name in dict.fromkeys(run["scenario"] for run in runs if run["scenario"] not in ADVERSARY):
        parts += _section(name, [run for run in runs if run["scenario"] == name])
    parts += _adversary([run for run in runs if run["scenario"] in ADVERSARY])
    return "\n\n".join(parts) + "\n"


def _options(asked: dict[str, Any]) -> str:
    return "--quick" if asked["quick"] else f"--minutes {asked['minutes']:g}"


def _verdict(runs: list[dict[str, Any]]) -> str:
    failed = [run for run in runs if "error" in run]
    if failed:
        return f"**{len(failed)} of {len(runs)} runs failed**, see below."
    acknowledged = sum(run["figures"].get("acknowledged", 0) for run in runs)
    return (
        f"{_number(acknowledged)} messages were acknowledged. None was lost, none was there twice, and every snapshot "
        "that was read was a memory that had existed."
    )


def _section(name: str, runs: list[dict[str, Any]]) -> list[str]:
    done = [run for run in runs if "figures" in run]
    parts = [f"## {SCENARIOS[name].title}"]
    parts += _asked(runs, f"--only {name}")
    if done:
        figures = dict.fromkeys(
            figure for run in done for figure, value in run["figures"].items() if not isinstance(value, dict)
        )
        parts.append(
            _table(
                ["", *(_title(run) for run in done)],
                [
                    ["duration", *(_duration(run["seconds"]) for run in done)],
                    *([figure, *(_number(run["figures"].get(figure, 0)) for run in done)] for figure in figures),
                ],
            )
        )
    for run in done:
        parts += [
            f"{_title(run)}, {figure}:\n\n" + _list(by)
            for figure, by in run["figures"].items()
            if isinstance(by, dict) and by
        ]
    parts += [f"**{_title(run)} failed**:\n\n```\n{run['error']}\n```" for run in runs if "error" in run]
    return parts


def _adversary(runs: list[dict[str, Any]]) -> list[str]:
    """Return the section of the adversary: one table, and what was found."""
    if not runs:
        return []
    parts = ["## The adversary"]
    parts += _asked(runs, "adversary")
    rows = []
    for run in runs:
        figures = run.get("figures", {})
        tried = f"{_number(figures.get('tried', 0))} {SCENARIOS[run['scenario']].tries}"
        found = _number(sum(figures["violations"].values())) if figures else "failed"
        rows.append([SCENARIOS[run["scenario"]].title, _title(run), tried, found, _duration(run["seconds"])])
    parts.append(_table(["", "on", "tried", "violations", "duration"], rows))
    for run in runs:
        name = f"{SCENARIOS[run['scenario']].title}, {_title(run)}"
        if found := run.get("figures", {}).get("violations"):
            parts.append(f"{name}, violations:\n\n" + _list(found))
        elif "error" in run:
            parts.append(f"**{name}, failed**:\n\n```\n{run['error']}\n```")
    return parts


def _asked(runs: list[dict[str, Any]], what: str) -> list[str]:
    """Return a sentence for each command, day and seed with which some of the runs were run separately."""
    sentences = (
        f"Run separately by `python -m benchmarks.soak {_options(asked)} {what}` on {asked['date'][:10]}, "
        f"with seed {asked['seed']}."
        for run in runs
        if (asked := run.get("asked"))
    )
    return list(dict.fromkeys(sentences))


def _title(run: dict[str, Any]) -> str:
    return ENGINES[run["engine"]] if run["engine"] else ", ".join(run["versions"]) or run["scenario"]


def _list(counts: dict[str, int]) -> str:
    falling = sorted(counts.items(), key=lambda item: -item[1])
    return "\n".join(f"- {_number(count)} × `{text}`" for text, count in falling)


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows])


def _number(value: Any) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int | float) else str(value)


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds / 60:.0f} min"
