"""CSV and Parquet files with columns of any kind: against data frames, and from `ict fit` to `ict predict`."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ict import SemiSupervisedClassifier
from ict.base.errors import UserError
from ict.data.columns.learn import learn_table
from ict.data.user import table_file
from ict.data.user.read import read_data
from ict.data.user.subsets import read_subsets
from ict.models.saved_model import load_model
from tests.test_cli import ict
from tests.test_columns import a_frame
from tests.test_user_data import save_table

pandas = pytest.importorskip("pandas")
N = 120
QUICK = ("--method", "supervised", "--steps", "5", "--device", "cpu")


def labeled(n: int = N) -> Any:
    """A table with gaps, words, dates, truth values, an identifier and a constant, half of it labeled."""
    frame = a_frame(n)
    y = np.where(frame.age.fillna(50) > 50, "old", "young").astype(object)
    y[n // 2 :] = None
    return frame.assign(id=range(n), k=7, label=pandas.Series(y, dtype=object))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_is_read_like_its_data_frame(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = labeled()
    expected = learn_table([frame.drop(columns="label")], {})
    assert expected is not None
    path = save_table(tmp_path / f"t{suffix}", frame)
    for rows in (table_file.CHUNK, 7):
        monkeypatch.setattr(table_file.pieces, "__defaults__", (rows, ()))
        data = read_data(path)
        assert data.table == expected
        np.testing.assert_array_equal(data.x, expected(frame))
        assert data.columns == expected.features
        assert data.y.tolist() == [None if label is None else str(label) for label in frame.label]


def test_words_stay_as_they_are_written_in_every_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pandas alone would read the first rows of the column as numbers and NA as a gap."""
    cells = ["01", "02", "NA"] * 10 + ["x1", "x2"] * 5
    path = tmp_path / "t.csv"
    path.write_text("code,a,label\n" + "".join(f"{cell},{i},u\n" for i, cell in enumerate(cells)))
    monkeypatch.setattr(table_file.pieces, "__defaults__", (2, ()))
    data = read_data(path)
    assert data.columns == ("code=01", "code=02", "code=NA", "code=x1", "code=x2", "a")
    assert data.x[:, :5].argmax(1).tolist() == [0, 1, 2] * 10 + [3, 4] * 5
    assert read_data(path, columns={"a": "category"}).columns[5:] == tuple(
        f"a={i}" for i in sorted(map(str, range(40)))
    )


@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), (";", "."), ("\t", ".")])
def test_spreadsheets_may_write_semicolons_and_decimal_commas(separator: str, decimal: str, tmp_path: Path) -> None:
    frame = labeled().assign(price=np.arange(N) / 8, note='one, "two"; three')
    expected = read_data(save_table(tmp_path / "t.csv", frame))
    other = tmp_path / "other.csv"
    frame.to_csv(other, index=False, sep=separator, decimal=decimal, encoding="utf-8-sig")
    found = read_data(other)
    assert found.table == expected.table and found.y.tolist() == expected.y.tolist()
    np.testing.assert_array_equal(found.x, expected.x)


def test_another_encoding_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    labeled().assign(job="Bäcker").to_csv(path, index=False, encoding="latin-1")
    with pytest.raises(UserError, match=r"t\.csv cannot be read as a table .*: .* a CSV in UTF-8\."):
        read_data(path)


def test_what_stands_beside_a_column_of_texts_is_said_to_be_unused(tmp_path: Path) -> None:
    path = save_table(tmp_path / "t.csv", labeled().assign(note="some words"))

    class Lengths:
        def texts(self, texts: list[str], *_: object) -> Any:
            return np.array([[len(text)] for text in texts], np.float32)

    data = read_data(path, text_column="note", embed=Lengths())  # type: ignore[arg-type]
    assert (
        data.remarks[0]
        == "6 other columns were not used, only the text 'note': 'age', 'job', 'when', 'member', 'id' and 1 more"
    )


def test_subsets_get_the_features_of_the_training_table(tmp_path: Path) -> None:
    frame = labeled()
    frame.label = frame.label.fillna("old")
    main = save_table(tmp_path / "a.csv", frame)
    other = save_table(tmp_path / "b.parquet", frame[::-1].iloc[:40].dropna())
    given = read_subsets(main, test=other)
    table = given.data.table
    assert table is not None and given.test is not None
    np.testing.assert_array_equal(given.data.x[given.test], table(frame[::-1].iloc[:40].dropna()))


def test_from_fit_to_predict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = labeled()
    save_table(tmp_path / "t.csv", frame.assign(label=frame.label.fillna("nan")))
    assert ict(monkeypatch, "fit", "t.csv", *QUICK, "--columns", "member=ignore") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == (
        "columns: number: 'age'; category: 'job'; date: 'when'; "
        "left out: 'member' (as asked), 'id' (looks like an identifier), 'k' (constant)"
    )
    assert printed[1] == "60 rows are unlabeled: 60 'nan'"
    model = load_model(tmp_path / "model")
    assert model.table is not None
    assert "number, gaps filled with" in (tmp_path / "model/report.html").read_text()
    expected = [f"{p:.6f}" for p in model.predict_proba(model.table(frame))[:, 0]]
    shuffled = frame[["when", "job", "age"]].assign(more=1)
    for path in (tmp_path / "new.csv", save_table(tmp_path / "new.parquet", shuffled)):
        save_table(path, shuffled)
        assert ict(monkeypatch, "predict", "model", path, "-o", "p.csv") == 0
        found = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
        assert [row["p(old)"] for row in found] == expected
        assert "1 column that the model does not use was ignored: 'more'" in capsys.readouterr().out


def test_a_file_is_scaled_like_its_data_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of numbers and truth values without gaps."""
    monkeypatch.chdir(tmp_path)
    for i, columns in enumerate((["age", "job", "when", "member"], ["price", "member"])):
        frame = labeled().assign(price=np.arange(N) / 8)[[*columns, "label"]]
        save_table(tmp_path / f"{i}.csv", frame)
        assert ict(monkeypatch, "fit", f"{i}.csv", "--out", f"m{i}", *QUICK) == 0
        model = SemiSupervisedClassifier("supervised", steps=5, device="cpu").fit(frame[columns], frame.label)
        assert load_model(tmp_path / f"m{i}").inputs == model.inputs_


def test_rare_truths_are_not_what_is_typical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups of prices are two deviations apart, and the few rows with a truth no farther from either."""
    monkeypatch.chdir(tmp_path)
    price = np.repeat([0.0, 10.0], 200) + np.linspace(0, 0.1, 400)
    price[198:202] = 5
    rare = np.isin(np.arange(400), range(198, 202))
    save_table(tmp_path / "t.csv", pandas.DataFrame({"price": price, "a": rare, "b": rare, "c": rare}))
    assert ict(monkeypatch, "fit", "t.csv", "--suggest", "2") == 0
    rows = [
        int(row["example"].removeprefix("row "))
        for row in csv.DictReader((tmp_path / "next.csv").read_text().splitlines())
    ]
    assert sorted(row > 200 for row in rows) == [False, True] and not set(rows) & set(range(199, 203))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job": None}, "lacks columns that the model is fitted to: add job"),
        ({"age": "old"}, "has 'old' instead of a finite number in the column 'age' in row 1, and nothing else there"),
        ({"when": 3}, "has '3' instead of a date in the column 'when' in row 1, and nothing else there"),
        ({"job": 3}, "the column 'job' has numbers such as 3, but it had words such as"),
    ],
)
def test_a_table_that_changed_is_one_sentence(
    change: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = labeled()
    data = read_data(save_table(tmp_path / "t.csv", frame))
    ((name, value),) = change.items()
    new = frame.drop(columns=name) if value is None else frame.assign(**change)
    for suffix in (".csv", ".parquet"):
        with pytest.raises(UserError, match=f"new{suffix}.*{words}") as caught:
            read_data(save_table(tmp_path / f"new{suffix}", new), table=data.table, skip_bad=True)
        assert str(caught.value).count(". ") == 0


def test_what_a_folder_says_of_its_table_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_table(tmp_path / "t.csv", labeled())
    assert ict(monkeypatch, "fit", "t.csv", *QUICK) == 0
    config = json.loads((tmp_path / "model/config.json").read_text())
    config["table"]["columns"].pop()
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="its table has"):
        load_model(tmp_path / "model")
