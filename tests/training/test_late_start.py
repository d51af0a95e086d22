"""Methods that begin late: plain gradients first, then what they are for."""

from dataclasses import dataclass

import pytest

import tepui
from tepui.methods import A2D, GSAM, SAM, SED, DeepEnsemble, MemberMethod, SharpBalance
from training.cases import (
    assert_different,
    assert_same_bits,
    fitted,
    images,
    noisy_net,
    untimed,
)

EPOCHS = 4
HALF = EPOCHS // 2


@dataclass(frozen=True, kw_only=True)
class Twin(MemberMethod):
    """Begins after half of the run by the clock that every step can read."""

    after: SAM | GSAM

    def gradient(self, member, batch):
        late = float(member.progress) >= 0.5
        return (self.after if late else DeepEnsemble()).gradient(member, batch)


def weights_by_epoch(method, **how):
    """Train, and return the run with the weights after every epoch."""
    ensemble = tepui.Ensemble.build(noisy_net, members=2, seed=5)
    copies = []

    def keep(record):
        copies.append({k: v.clone() for k, v in ensemble.state_dict().items()})

    settings = {"epochs": EPOCHS, "batch_size": 8, "optimizer": tepui.SGD(lr=0.05)}
    settings |= {"progress": "none", "device": "cpu", "callbacks": [keep], **how}
    return tepui.fit(ensemble, images(), method=method, **settings), copies


@pytest.mark.parametrize("after", [SAM(rho=0.3), GSAM(rho=0.3, alpha=0.5)], ids=repr)
def test_the_whole_run_is_that_of_a_method_that_reads_the_clock(after):
    late = type(after)(**{**vars(after), "start_at": 0.5})
    _, weights = weights_by_epoch(late)
    _, expected = weights_by_epoch(Twin(after=after))
    assert_same_bits(weights[-1], expected[-1])


@pytest.mark.parametrize("coupled", [SED, A2D])
def test_coupled_members_meet_without_their_base_until_it_starts(coupled):
    data = images()
    how = {"members": 3, "epochs": EPOCHS}
    if coupled is A2D:
        how["unlabeled"] = images(16, seed=1)
    never = fitted(data, method=coupled(base=SAM(rho=0.3, start_at=1.0)), **how)
    without = fitted(data, method=coupled(), **how)
    late = fitted(data, method=coupled(base=SAM(rho=0.3, start_at=0.5)), **how)
    assert_same_bits(never.ensemble.state_dict(), without.ensemble.state_dict())
    assert untimed(late.history[:HALF]) == untimed(without.history[:HALF])
    assert_different(late.ensemble.state_dict(), without.ensemble.state_dict())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: SharpBalance(before="later"), "before must be one of"),
        (lambda: SAM(start_at=-1), "start_at must be a non-negative epoch"),
        (lambda: SAM(start_at=True), "start_at must be a non-negative epoch"),
        (lambda: SAM(start_at="1"), "start_at must be a non-negative epoch"),
        (lambda: GSAM(start_at=1.5), "start_at must be .* share of the run"),
        (lambda: SharpBalance(base=SAM(start_at=0.5)), "base must have start_at = 0"),
        (lambda: SharpBalance(base=SAM(rho=0.3)), "base must leave its radius to rho"),
        (lambda: SharpBalance(base=GSAM(rho=0.3)), "base must leave its radius to rho"),
        (
            lambda: SharpBalance(rho=0.1, base=GSAM(rho=0.05)),
            "base must leave its radius to rho",
        ),
    ],
)
def test_bad_values_are_refused_by_name(wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong()
