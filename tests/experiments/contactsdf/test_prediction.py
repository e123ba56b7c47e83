"""The study of predictions: what decides its exit code."""

import json

import numpy as np
import pytest

from experiments.contactsdf import prediction
from experiments.contactsdf.prediction_error import PredictionError


@pytest.mark.parametrize(("share", "status"), [(0.5, 0), (0.7, 1)])
def test_the_learned_predictor_decides_the_exit_code(share, status, monkeypatch, capsys):
    error = lambda x: PredictionError(*(x * np.ones(5) for _ in range(3)))  # noqa: E731
    rows = [
        prediction.Row("stays", error(1.0), None),
        prediction.Row("predictor, learned", error(share), {"mass": [0.2, 0.2]}),
    ]
    monkeypatch.setattr(prediction, "study_prediction", lambda *_, **__: prediction.Study(rows, 100, 5))
    assert prediction.main(["--json"]) == status
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["passed"] is (status == 0) and results["models"][1]["relative"]["position"] == share
