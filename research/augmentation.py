"""Train and examine the arms of ``augmentation.md``, block by block.

python research/augmentation.py --data FOLDER --out FOLDER --seeds 221 222
"""

from equal_price import PLAIN, main

from tepui.data import AugMix, CutMix, Mixup, TrivialAugment
from tepui.losses import CrossEntropy
from tepui.methods import DeepEnsemble, SharpBalance

TRIVIAL, AUGMIX = (*PLAIN, TrivialAugment()), (*PLAIN, AugMix())
CONSISTENT = {"augment": AUGMIX, "loss": CrossEntropy(consistency=12)}
PLAINLY, FLATTER, SIZES = DeepEnsemble(), SharpBalance(), (1, 3)
# As the arms of equal_price.py, and what else fit is told.
ARMS = {
    "plain": (3, 40, PLAINLY, SIZES, {}),
    "trivial": (3, 40, PLAINLY, SIZES, {"augment": TRIVIAL}),
    "augmix": (3, 40, PLAINLY, SIZES, {"augment": AUGMIX}),
    "consistent": (3, 40, PLAINLY, SIZES, CONSISTENT),
    "mixup": (3, 40, PLAINLY, SIZES, {"augment": (*PLAIN, Mixup(1.0))}),
    "cutmix": (3, 40, PLAINLY, SIZES, {"augment": (*PLAIN, CutMix(1.0))}),
    "plain-sharpbalance": (3, 40, FLATTER, SIZES, {}),
    "trivial-sharpbalance": (3, 40, FLATTER, SIZES, {"augment": TRIVIAL}),
    "augmix-sharpbalance": (3, 40, FLATTER, SIZES, {"augment": AUGMIX}),
    "plain-epochs": (3, 60, PLAINLY, SIZES, {}),
    "trivial-epochs": (3, 60, PLAINLY, SIZES, {"augment": TRIVIAL}),
    "augmix-epochs": (3, 60, PLAINLY, SIZES, {"augment": AUGMIX}),
}

if __name__ == "__main__":
    main(ARMS)
