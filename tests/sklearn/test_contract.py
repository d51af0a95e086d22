"""scikit-learn's own checks of estimators, without exceptions of ours."""

import pytest
from sklearn.utils.estimator_checks import check_estimator

from tepui.methods import SAM
from tepui.sklearn import EnsembleClassifier, EnsembleRegressor


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("kind", [EnsembleClassifier, EnsembleRegressor])
@pytest.mark.parametrize("method", [None, SAM()], ids=["default", "SAM"])
def test_as_it_comes_and_with_another_method(kind, method):
    results = check_estimator(kind(method=method))
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # asks for SCIPY_ARRAY_API
