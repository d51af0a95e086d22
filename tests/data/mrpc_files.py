"""The layout of MRPC with invented sentences."""

import random

HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
NOUNS = [
    "cat",
    "dog",
    "bank",
    "court",
    "minister",
    "company",
    "river",
    "storm",
    "market",
    "judge",
]
VERBS = ("saw", "bought", "left", "praised", "sued", "joined", "passed")


def lines(pairs):
    """Pairs that are paraphrases exactly when the second starts with the first noun."""
    draw = random.Random("train")
    for row in range(pairs):
        label = draw.random() < 0.67
        noun, other = draw.sample(NOUNS, 2)
        first = f'The {noun} {draw.choice(VERBS)} the {other}, he said: "yes".'
        second = (
            f"A {noun if label else other} {draw.choice(VERBS)} it in {1900 + row}."
        )
        yield f"{int(label)}\t{1000 + row}\t{9000 + row}\t{first}\t{second}"


def write(root, pairs=4076):
    """Write the file as it is published, with its byte order mark and CRLF."""
    folder = root / "mrpc"
    folder.mkdir(parents=True)
    text = "\r\n".join([HEADER, *lines(pairs)]) + "\r\n"
    (folder / "msr_paraphrase_train.txt").write_bytes(text.encode("utf-8-sig"))
    return folder
