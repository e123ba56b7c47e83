"""README, docs and the committed results say the same; the language of marks; the list of
experiments."""

import json
import re
from pathlib import Path

import pytest

from dexstack.errors import ConfigError
from experiments.results import __main__ as command
from experiments.results import report
from experiments.results.catalogue import experiments
from experiments.results.marks import rewritten
from experiments.results.tables import SECTIONS
from experiments.results.values import load_results, shown

ROOT = Path(__file__).parents[2]
MACHINE = {"cpu": "C", "cores": 2, "python": "3.11", "load": [0.5, 0.4, 0.3]}
DOCUMENT = {
    "command": "bench mpc",
    "argv": ["dexstack", "bench", "mpc", "--json", "x.json", "--seed", "3"],
    "commit": "abc",
    "seed": 3,
    "machine": MACHINE,
    "results": {
        "solve_s": {"p50": 0.00142, "n": 1000},
        "cases": [{"name": "a", "ratio": 2.0}, {"name": "b, c", "ratio": 3.0}],
        "reached": 9,
        "rate": 0.9,
        "n": 10,
        "each": [True, False],
        "odd.key": 7,
        "nothing": None,
        "passed": False,
    },
}
ALL = {"mpc": DOCUMENT}


def test_readme_and_docs_are_those_of_the_results():
    assert not command.outdated(), "run `python -m experiments.results`"


def test_every_result_says_how_it_was_made():
    for name, document in load_results().items():
        assert {"command", "argv", "version", "commit", "seed", "machine", "results"} <= set(document), name
        assert document["commit"] and not document["commit"].endswith("-dirty"), (
            f"{name} is of code that is in no commit"
        )
        assert {"cpu", "cores", "python", "load"} <= set(document["machine"]), name
        paths = re.findall(r"(?<![\w.])/(?:home|root|tmp|work|mnt|var)/\S*", json.dumps(document))
        assert not paths, f"{name} names {paths[0]} of one machine; write FOLDER"


def test_every_table_is_of_a_result_of_its_own():
    names = [section.result for section in SECTIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("mpc.results.solve_s.p50*1e3:.1f", "1.4"),
        ("mpc.results.solve_s.p50/0.001:.2f", "1.42"),
        ("mpc.results.solve_s.n", "1000"),
        ("mpc.results.cases[1].ratio:.0f", "3"),
        ("mpc.results.cases[name=b, c].ratio", "3.0"),
        ('mpc.results["odd.key"]:03d', "007"),
        ("mpc.results.nothing:.1f", "–"),
        ("mpc.results.passed", "no"),
        ("mpc.results.solve_s", "0.00142 p50, 1000 n"),
        ("mpc.commit", "abc"),
        ("rate(mpc.results.reached, mpc.results.n)", "9 of 10 (90 %, 60 … 98 %)"),
        ("rate(mpc.results.rate, mpc.results.n)", "9 of 10 (90 %, 60 … 98 %)"),
    ],
)
def test_expressions(expression, text):
    assert shown(ALL, expression) == text


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("mpc.results.solve_ms", "known: solve_s, cases"),
        ("nobody.results.x", "known: mpc"),
        ("mpc.results.cases[7].ratio", r"nothing at '\[7\]'"),
        ("mpc.results.cases[name=d].ratio", r"nothing at '\[name=d\]'"),
        ("mpc.commit:.1f", "Unknown format code"),
        ("mpc.commit*2:.1f", "can't multiply"),
        ("rate(mpc.results.n, mpc.results.reached)", "10 of 9 is not a proportion"),
        ("", "not an expression"),
    ],
)
def test_what_no_result_has_is_refused(expression, complaint):
    with pytest.raises(ConfigError, match=complaint):
        shown(ALL, expression)


def test_marked_numbers_are_rewritten_and_nothing_else():
    page = "in <!--r:mpc.results.solve_s.p50*1e3:.1f-->9.9<!--/--> ms, <!-- a note --> <!--r:mpc.results.n--><!--/-->\n"
    once = rewritten(page, ALL, "page")
    assert (
        once
        == "in <!--r:mpc.results.solve_s.p50*1e3:.1f-->1.4<!--/--> ms, <!-- a note --> <!--r:mpc.results.n-->10<!--/-->\n"
    )
    assert rewritten(once, ALL, "page") == once


@pytest.mark.parametrize(
    "page",
    [
        "<!--r:mpc.results.n-->10",
        "<!--r:mpc.results.n-->1 <!--r:mpc.results.n-->10<!--/-->",
        "10<!--/-->",
        "<!--r:mpc.x-->1<!--/-->",
    ],
)
def test_an_open_mark_or_one_without_a_result_is_refused(page):
    with pytest.raises(ConfigError, match="README"):
        rewritten(page, ALL, "README")


def test_the_page_shows_what_no_table_names_and_what_was_not_reached():
    text = report.page({"new_thing": DOCUMENT})
    assert "| new thing | `new_thing.json` | **no** |" in text and "| reached | 9 |" in text
    assert (
        "`dexstack bench mpc --seed 3`; commit abc; seed 3; C, 2 cores, Python 3.11; load 0.5; **not reached**."
        in text
    )


def test_trials_are_shown_as_trials():
    error = {"mean": 0.1, "std": 0.02}
    cell = {
        "success_rate": 0.9,
        "trials": 10,
        "dropped": 1,
        "stalls": 0,
        "goals_reached": 9,
        "goal_s": {"median": None},
    }
    cell |= {"orientation_error_rad": error, "position_error_m": error}
    ran = {"task": "palm_turn", "object": "cube", "planner": "sampling", "model": None, "supervisor": "none"}
    ran |= {"period_s": 0.1, "latency_s": 0.02}
    text = report.page({"palm": {**DOCUMENT, "results": cell | ran | {"kinds": {"+90°": cell}}}})
    assert (
        "| `palm.json` | palm_turn | cube | sampling | none | 10 | 20 | 9 of 10 (90 %, 60 … 98 %) |" in text
    )
    assert "| +90° | 9 of 10 (90 %, 60 … 98 %) | 1 | 0 | 9 | – | 0.100 | 0.020 | 100.0 |" in text
    text = report.page(
        {"palm": {**DOCUMENT, "results": {"cells": [{"cell": "mass 2", **cell}], "kinds": {}}}}
    )
    assert "| mass 2 | 9 of 10 (90 %, 60 … 98 %) |" in text


def test_a_stale_page_is_noticed_and_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").mkdir()
    (tmp_path / "experiments" / "results").mkdir(parents=True)
    (tmp_path / "experiments" / "results" / "thing.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "experiments" / "README.md").write_text(f"# Experiments\n{command.BEGIN}{command.END}\n")
    (tmp_path / "README.md").write_text("<!--r:thing.results.n-->11<!--/-->\n")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command.outdated, "__defaults__", (tmp_path,))
    assert command.main(["--check"]) == 1 and "README.md is not current" in capsys.readouterr().out
    assert (
        command.main([]) == 0
        and (tmp_path / "README.md").read_text() == "<!--r:thing.results.n-->10<!--/-->\n"
    )
    assert command.main(["--check"]) == 0
    (tmp_path / "README.md").write_text("<!--r:thing.results.k-->11<!--/-->\n")
    capsys.readouterr()
    assert command.main([]) == 2 and len(capsys.readouterr().err.splitlines()) == 1


def test_experiments_are_found_with_what_they_show():
    found = experiments()
    papers = (
        "contactsdf engines graph hands hydroelastic identification lcp objects orientation perception soft"
    )
    assert {e.paper for e in found} == set(papers.split())
    assert all(e.summary.endswith(".") for e in found), [
        e.command for e in found if not e.summary.endswith(".")
    ]
    assert "python -m experiments.hydroelastic.surfaces" in {e.command for e in found}
