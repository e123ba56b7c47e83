"""The estimator on a few pictures, without the film."""

import json

from experiments.perception.pictures import _kept, main


def test_figures_and_exit_code_agree(tmp_path):
    path = tmp_path / "r.json"
    code = main(["--pictures", "12", "--seconds", "0", "--seed", "4", "--json", str(path)])
    document = json.loads(path.read_text())
    results = document["results"]
    assert (
        document["command"].startswith("python -m experiments.perception.pictures --pictures 12 ")
        and document["seed"] == 4
        and "film" not in results
    )
    small = results["static"]["640x480"]
    assert (
        small["one_face"]["position_error_m"]["n"] == 12
        and 0 < small["two_faces"]["position_error_m"]["p50"] < 1e-3
    )
    assert small["pose_s"]["n"] == 12 and small["pose_s"]["p50"] > 0
    assert results["passed"] == all(results["kept"].values()) and code == (0 if results["passed"] else 1)
    assert results["kept"]["one face p95 (<= 3 deg)"], (
        "and so do the other limits that do not compare two small samples"
    )


def test_limits_are_judged():
    """Errors beyond a limit fail it, and only it."""

    def entry(mm: float, deg: float) -> dict:
        error = (
            {"n": 5, "p50": mm * 1e-3, "p95": mm * 1e-3},
            {"n": 5, "p50": deg * 0.01745, "p95": deg * 0.01745},
        )
        summary = dict(zip(("position_error_m", "orientation_error_rad"), error, strict=True))
        return {"two_faces": summary, "one_face": summary}

    film = {"wrong_jumps": 0, "within_bound": 0.95, "pose_s": {"p99": 0.010}}
    good = {"static": {"640x480": entry(0.2, 0.2), "1280x720": entry(0.1, 0.1)}, "film": film}
    assert all(_kept(good).values())
    for bad, name in (
        ({**good, "static": {**good["static"], "640x480": entry(0.4, 0.2)}}, "two faces p50"),
        ({**good, "static": {**good["static"], "1280x720": entry(0.3, 0.1)}}, "1280x720 better"),
        ({**good, "film": {**film, "wrong_jumps": 1}}, "no wrong jump"),
        ({**good, "film": {**film, "within_bound": 0.89}}, "normalised error"),
        ({**good, "film": {**film, "pose_s": {"p99": 0.016}}}, "time per picture"),
    ):
        failed = [k for k, ok in _kept(bad).items() if not ok]
        assert len(failed) == 1 and failed[0].startswith(name), failed
