"""Conformal prediction: sets and intervals that hold the truth as often as promised.

Held-out samples say how badly the truth can fit what is predicted, in a score ``s``.
Of ``n`` such scores the ``⌈(n + 1) coverage⌉``-th smallest is the limit ``q``; what has
a score of at most ``q`` is in the set of a new sample. If the new sample is
exchangeable with the held-out ones, the set holds its truth with a probability of at
least ``coverage``, whatever the model. Under a shift nothing is promised.

References:
    Vovk et al. 2005, "Algorithmic learning in a random world"; Sadinle et al. 2019,
    "Least ambiguous set-valued classifiers with bounded error levels" (threshold);
    Romano et al. 2020, "Classification with valid and adaptive coverage" (APS);
    Angelopoulos et al. 2021, "Uncertainty sets for image classifiers using conformal
    prediction" (RAPS); Lei et al. 2018, "Distribution-free predictive inference for
    regression"; Romano et al. 2019, "Conformalized quantile regression".
"""
