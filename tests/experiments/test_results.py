"""Generated pages are current; values, tables and blocks are rendered as documented."""

import json
import re
from pathlib import Path

import pytest

from dexstack.errors import ConfigError
from experiments.results import __main__ as command
from experiments.results.claims import experiments, fill
from experiments.results.pages import load_pages, render, shown_results
from experiments.results.values import cell, load_results

DOCUMENT = {
    "argv": ["dexstack", "bench", "mpc", "--json", "x.json", "--seed", "3"],
    "commit": "abc",
    "machine": {"cpu": "C", "cores": 2, "python": "3.11", "load": [0.5, 0.4, 0.3]},
    "results": {
        "solve_s": {"p50": 0.00142, "n": 1000},
        "cases": [{"name": "a", "ratio": 2.0}, {"name": "b", "speed": 3.0}],
        "worlds": {"heavy": {"ratio": 2.5}, "passed": True},
        "reached": 9,
        "rate": 0.9,
        "n": 10,
        "each": [True, False],
        "odd key": 0.6526370890060207,
        "nothing": None,
        "passed": False,
    },
}


def test_pages_are_those_that_the_command_writes():
    assert not command.outdated(), "run `python -m experiments.results`"


def test_every_result_records_how_it_was_made():
    for name, document in load_results().items():
        assert {"command", "argv", "version", "commit", "seed", "machine", "results"} <= set(document), name
        assert document["commit"] and not document["commit"].endswith("-dirty"), (
            f"{name} belongs to code of no commit"
        )
        assert {"cpu", "cores", "python", "load"} <= set(document["machine"]), name
        paths = re.findall(r"(?<![\w.])/(?:home|root|tmp|work|mnt|var)/\S*", json.dumps(document))
        assert not paths, f"{name} contains {paths[0]}, a path of one machine; write FOLDER"


def test_every_result_is_shown_and_every_shown_result_exists():
    assert {name for page in load_pages().values() for name in shown_results(page)} == set(load_results())


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("solve_s.p50*1e3:.1f", "1.4"),
        ("solve_s.p50/0.001:.2f", "1.42"),
        ("solve_s.n", "1000"),
        ("cases.1.speed:.0f", "3"),
        ("cases.1.ratio:.0f", "–"),
        ("odd key", "0.653"),
        ("nothing:.1f", "–"),
        ("no.such.key", "–"),
        ("passed", "no"),
        ("solve_s", "0.00142 p50, 1000 n"),
        ("each", "yes, no"),
        ("rate(reached, n)", "9 of 10 (90 %, 60 … 98 %)"),
        ("rate(rate, n)", "9 of 10 (90 %, 60 … 98 %)"),
        ("rate(nothing, n)", "–"),
    ],
)
def test_values_are_scaled_rounded_and_formatted(expression, text):
    assert cell(DOCUMENT["results"], expression) == text


@pytest.mark.parametrize(
    "expression", ["solve_s.p50:%%", "rate(n, reached)", "rate(n, nothing)", "", "each*a"]
)
def test_a_value_that_does_not_fit_its_expression_is_rejected(expression):
    with pytest.raises(ConfigError, match="cannot show"):
        cell(DOCUMENT["results"], expression)


def test_a_page_shows_values_rows_comparisons_and_their_source():
    tables = [
        {"values": {"plan [ms]": "solve_s.p50*1e3:.1f"}},
        {"rows": "cases", "columns": {"case": "name", "ratio": "ratio:.1f"}},
        {"rows": "worlds", "label": "world", "columns": {"ratio": "ratio:.1f"}},
    ]
    sections = [
        {"title": "Time", "result": "mpc", "tables": tables},
        {"title": "Both", "note": "A note.", "results": {"mpc": "with | bar"}, "columns": {"n": "n"}},
    ]
    text = render("page", {"title": "Planner", "sections": sections}, {"mpc": DOCUMENT})
    source = (
        "`mpc.json`: `dexstack bench mpc --seed 3`; commit abc; "
        "C, 2 cores, Python 3.11; load 0.5; **requirement not met**."
    )
    assert text.startswith("# Planner\n")
    for part in (
        "| plan [ms] | 1.4 |",
        "| a | 2.0 |",
        "| b | – |",
        "| heavy | 2.5 |",
        "| with \\| bar | 10 |",
        source,
    ):
        assert part in text, part


@pytest.mark.parametrize(
    "section",
    [{"result": "none", "tables": []}, {"result": "mpc", "tables": [{"rows": "none", "columns": {}}]}],
)
def test_a_section_without_its_result_or_rows_is_rejected(section):
    with pytest.raises(ConfigError, match=r"pages\.yaml, page, 'Time'"):
        render("page", {"title": "", "sections": [{"title": "Time", **section}]}, {"mpc": DOCUMENT})


def test_only_generated_blocks_are_replaced():
    page = "before\n<!-- begin generated: experiments -->\nstale text\n<!-- end generated -->\nafter"
    once = fill(page, {}, "page")
    assert once.startswith("before\n<!-- begin generated: experiments -->\n") and once.endswith("\nafter")
    assert "stale text" not in once and "| `python -m experiments.hydroelastic.surfaces` |" in once
    assert fill(once, {}, "page") == once


@pytest.mark.parametrize(
    "page",
    [
        "<!-- begin generated: experiments -->\n",
        "<!-- begin generated: nothing -->\n<!-- end generated -->",
        "<!-- begin generated: claims -->\n<!-- begin generated: claims -->\n<!-- end generated -->",
    ],
)
def test_an_open_or_unknown_block_is_rejected(page):
    with pytest.raises(ConfigError, match="README"):
        fill(page, {}, "README")


def test_the_command_reports_and_writes_stale_pages(tmp_path, capsys):
    """A copy of the results with an outdated README, an outdated page and a page too many."""
    kept = tmp_path / "experiments" / "results"
    kept.mkdir(parents=True)
    for path in (Path(command.ROOT) / "experiments" / "results").glob("*.json"):
        (kept / path.name).symlink_to(path)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "gone.md").write_text("old")
    readme = tmp_path / "README.md"
    readme.write_text("<!-- begin generated: claims -->\n<!-- end generated -->\n")
    assert command.main(["--check"], tmp_path) == 1 and "README.md is not current" in capsys.readouterr().out
    assert command.main([], tmp_path) == 0 and "| what | condition |" in readme.read_text()
    assert not (tmp_path / "docs" / "results" / "gone.md").exists()
    assert command.main(["--check"], tmp_path) == 0
    readme.write_text("<!-- begin generated: nothing -->\n<!-- end generated -->\n")
    assert command.main([], tmp_path) == 2 and "README.md" in capsys.readouterr().err


def test_every_experiment_is_found_with_a_summary():
    found = experiments()
    assert "hydroelastic.surfaces" in found and len(found) > 30
    assert not [name for name, summary in found.items() if not summary.endswith(".")]
