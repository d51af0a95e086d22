"""A part of a table or of texts is read as the whole is."""

import pytest

import tepui
from tepui.data import Table, Texts, split
from tepui.methods import DeepEnsemble


@pytest.fixture
def table(tmp_path):
    rows = "".join(
        f"{row}.5,{'red' if row % 3 else 'blue'},{int(row > 30)}\n" for row in range(60)
    )
    file = tmp_path / "my.csv"
    file.write_text(f"size,color,sold\n{rows}")
    return Table(file, "sold")


def test_what_learned_from_a_part_of_a_table_reads_tables(table, tmp_path):
    part, held_out = split(table, 0.25, seed=0)
    assert (len(part), len(held_out)) == (36, 12)
    assert (part.columns, part.units) == (table.columns, table.units)
    ensemble = tepui.Ensemble.build(
        lambda: tepui.models.MLP(3, num_classes=2), members=2, seed=0
    )
    tepui.fit(ensemble, part, method=DeepEnsemble(), epochs=1, progress="none")
    tepui.evaluate(ensemble, held_out)
    tepui.evaluate(ensemble, Table(tmp_path / "my.csv", "sold", train=False))
    (tmp_path / "new.csv").write_text("size,color\n3,red\n4,blue\n")
    assert len(ensemble.predict(tmp_path / "new.csv").labels) == 2


def test_a_part_of_texts_keeps_the_tokenizer():
    texts = Texts(["good", "bad", "so good", "so bad"], [1, 0, 1, 0], length=4)
    for part in split(texts, 0.5, seed=0):
        assert part.tokenizer is texts.tokenizer
        assert part.length == texts.length
        assert len(part) == 2
