"""What tells data that a caller hands over from others."""

import torch

from tepui.data import Arrays, Digits, UniformNoise, corrupted, sources
from tepui.studies.in_memory import Given, GivenTest
from tepui.studies.specifications import digest

TEST = Digits(train=False).subset(range(20))


def test_given_data_are_known_by_what_they_hold():
    again = Arrays(TEST.inputs.clone(), TEST.targets.clone(), TEST.normalize)
    assert digest(Given.of(TEST)) == digest(Given.of(again))
    other = Arrays(TEST.inputs.flip(0), TEST.targets, TEST.normalize)
    assert digest(Given.of(TEST)) != digest(Given.of(other))
    assert Given.of(TEST) == Given.of(again)
    assert Given.of(TEST).load(None) is TEST


def exam(metrics=None, ood=None):
    copies = corrupted(TEST, types=("contrast",), severities=(1,))
    about = sources.tested_on(TEST, copies, ood)
    return GivenTest(about, TEST, copies, ood or {}, metrics or {})


def test_an_answer_is_known_by_its_data_and_its_metrics():
    document = {"about": exam().about, "metrics": []}
    assert exam().is_answered_by(document)
    assert not exam({"half": torch.mean}).is_answered_by(document)
    assert exam({"half": torch.mean}).is_answered_by({**document, "metrics": ["half"]})
    noise = {"noise": UniformNoise(num_samples=3, like=TEST)}
    assert not exam(ood=noise).is_answered_by(document)
    assert not exam().is_answered_by({})


def test_exams_have_names_of_their_own():
    names = {exam().digest, exam({"half": torch.mean}).digest}
    names.add(exam(ood={"noise": UniformNoise(num_samples=3, like=TEST)}).digest)
    assert len(names) == 3
    assert exam().digest in names
