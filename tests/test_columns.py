"""Tables of columns of any kind as features: against scikit-learn, the calendar and by hand."""

import datetime
import importlib
import json
from typing import Any

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from ict import ICTClassifier
from ict.base.errors import UserError
from ict.data.columns.frames import as_frame
from ict.data.columns.kinds import kind_of, parse_columns
from ict.data.columns.learn import learn_table
from ict.data.columns.table_inputs import TableInputs

pandas = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
N = 300
QUICK: dict[str, Any] = {
    "steps": 5,
    "settings": ("anchor.trees=5",),
    "calibrate": False,
    "device": "cpu",
    "random_state": 0,
}


def a_frame(n: int = N) -> Any:
    age = RNG.integers(18, 90, n).astype(float)
    age[::10] = np.nan
    job = RNG.choice(np.array(["nurse", "cook", "pilot", None], dtype=object), n, p=[0.5, 0.3, 0.19, 0.01])
    job[0] = "judge"  # rare
    when = pandas.date_range("2023-12-30", periods=n, freq="7h")
    return pandas.DataFrame({"age": age, "job": job, "when": when, "member": RNG.random(n) < 0.4})


def learned(frame: Any, **asked: Any) -> TableInputs:
    table = learn_table([frame], asked)
    assert table is not None
    return table


def test_numbers_and_categories_are_those_of_scikit_learn() -> None:
    frame = a_frame()
    table = learned(frame[["age", "job"]])
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    encoder = OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist", sparse_output=False)
    jobs = frame[["job"]].fillna("").to_numpy(object)
    expected = np.concatenate([imputer.fit_transform(frame[["age"]]), encoder.fit_transform(jobs)], axis=1)
    np.testing.assert_array_equal(table(frame), expected.astype(np.float32))
    new = pandas.DataFrame({"age": [np.nan, 7.5], "job": ["astronaut", "cook"]})
    expected = np.concatenate(
        [imputer.transform(new[["age"]]), encoder.transform(new[["job"]].to_numpy(object))], axis=1
    )
    np.testing.assert_array_equal(table(new), expected.astype(np.float32))
    assert len(table.features) == expected.shape[1]


def test_rare_words_truths_and_gaps_lie_no_farther_than_frequent_ones() -> None:
    n = 1000
    age = RNG.normal(40, 10, n)
    age[:7] = np.nan
    frame = pandas.DataFrame(
        {
            "age": age,
            "job": ["judge"] * 15 + ["nurse"] * 200 + ["cook"] * (n - 215),
            "jury": np.arange(n) < 5,
            "often": np.arange(n) % 2 == 0,
        }
    )
    model = ICTClassifier(**QUICK).fit(frame, np.arange(n) % 3 - 1)
    middle = float(np.nanmedian(age))
    deviation = np.std(np.where(np.isnan(age), middle, age))
    row = {"age": middle, "job": "cook", "jury": False, "often": False}
    other: dict[str, tuple[Any, float]] = {
        "age": (middle + 3 * deviation, 3),
        "job": ("nurse", 2**0.5),
        "jury": (True, 2**0.5),
        "often": (True, 2**0.5),
    }
    changes = [(name, *change) for name, change in other.items()] + [("job", "judge", 2**0.5), ("age", np.nan, 0.5)]
    assert model.table_ is not None
    inputs = model.inputs_(model.table_(pandas.DataFrame([row, *({**row, name: cell} for name, cell, _ in changes)])))
    far = np.linalg.norm(inputs[1:] - inputs[0], axis=1)
    np.testing.assert_allclose(far, [expected for *_, expected in changes], rtol=1e-5)


def test_dates_are_those_of_the_calendar() -> None:
    moments = [
        datetime.datetime(1969, 12, 31, 23),
        datetime.datetime(2024, 2, 29, 5),
        datetime.datetime(2031, 7, 1, 12),
    ]
    frame = pandas.DataFrame({"when": [*moments, None]})
    expected = [
        [(m - datetime.datetime(1970, 1, 1)).total_seconds() / 86400, m.month, m.day, m.weekday(), m.hour, 0]
        for m in moments
    ]
    expected.append([*np.median(expected, axis=0)[:5], 1])
    written = pandas.DataFrame({"when": [m.isoformat(" ") for m in moments] + [""]})
    for given in (frame, written):
        table = learned(given)
        assert table.features == tuple(f"when: {p}" for p in ("days", "month", "day", "weekday", "hour", "gap"))
        np.testing.assert_allclose(table(given), expected, rtol=1e-6)


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y"])
def test_a_format_of_dates_is_right_only_if_it_fits_every_cell(form: str) -> None:
    days = pandas.date_range("2020-01-01", periods=60)
    table = learned(pandas.DataFrame({"day": days.strftime(form)}))
    march, april = datetime.date(2020, 3, 4), datetime.date(2020, 4, 3)
    x = table(pandas.DataFrame({"day": [march.strftime(form), april.strftime(form)]}))
    assert x[:, table.features.index("day: month")].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("cells", "name", "kind"),
    [
        ([1, 2, 3], "a", "number"),
        ([1.0, None, 3], "a", "number"),
        (["1", "2.5", "?"], "a", "number"),
        (["1", "x", "3"], "a", "number"),  # a mistake, which is refused later
        ([True, False], "a", "boolean"),
        ([True, None, False], "a", "boolean"),
        (["true", "False"], "a", "boolean"),
        (["a", "b", "a"], "a", "category"),
        (["3+", "1", "2+"], "a", "category"),
        (["2024-01-01", "2024-01-02"], "a", "date"),
        (["20240101a", "20240102b"], "a", "category"),
        ([5, 5, 5], "a", "constant"),
        ([None, None], "a", "constant"),
        (["x", "x", None], "a", "category"),
        ([*range(30)], "customer_id", "identifier"),
        ([*range(30)], "PassengerId", "identifier"),
        ([*range(30)], "Unnamed: 0", "identifier"),
        ([*range(30)], "width", "number"),
        ([0.5 * i for i in range(30)], "key", "number"),
        ([f"u{i}" for i in range(30)], "a", "identifier"),
        ([f"user {i}" for i in range(5)], "a", "category"),
        ([f"a sentence of words, number {i}" for i in range(30)], "a", "text"),
        ([[1], [2]], "a", "unusable"),
    ],
)
def test_what_a_column_is(cells: list[Any], name: str, kind: str) -> None:
    assert kind_of(pandas.Series(cells), name) == kind


def test_what_each_column_became_is_said_in_one_line_and_what_is_asked_for_decides() -> None:
    frame = a_frame().assign(id=range(N), k=7, zip=RNG.choice([10115, 20095, 80331], N))
    said = str(learned(frame))
    assert said == (
        "columns: number: 'age', 'zip'; category: 'job'; date: 'when'; true or false: 'member'; "
        "left out: 'id' (looks like an identifier), 'k' (constant)"
    )
    table = learned(frame, zip="category", id="number", age="ignore")
    assert table.features[-5:] == ("member", "id", "zip=10115", "zip=20095", "zip=80331")
    assert ("age", "left out, as asked") in table.described
    assert parse_columns("zip=category,a=b=ignore") == {"zip": "category", "a=b": "ignore"}
    for wrong in ("zip", "zip=word"):
        with pytest.raises(UserError, match="NAME=KIND"):
            parse_columns(wrong)
    with pytest.raises(UserError, match="no column 'zap'"):
        learned(frame, zap="number")
    with pytest.raises(UserError, match="'job' does not hold a date but values such as 'judge'"):
        learned(frame, job="date")


def test_tables_of_numbers_without_gaps_stay_as_they_are() -> None:
    assert learn_table([np.eye(3)], {}) is None
    assert learn_table([pandas.DataFrame({"a": [1.5, 2], "b": [3, 4]})], {}) is None
    assert learned(pandas.DataFrame({"a": [1.5, 2], "b": [True, False]})).names == ("a", "b"), "scaled as in a file"
    constant = learned(pandas.DataFrame({"a": [1.5, 2], "k": [7, 7]}))
    assert constant.names == ("a",), "another value in new rows would be far from all that was learned"
    assert learn_table([pandas.DataFrame({"a": [1.5, None]})], {}) is not None


@pytest.mark.parametrize(
    "form",
    [
        *("%d-%m-%Y", "%d %b %Y", "%d-%b-%Y", "%m/%d/%y", "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%Y-%m-%dT%H:%M:%S"),
        *("%d/%m/%Y %H:%M:%S", "%Y/%m/%d %H:%M", "%Y-%m"),
    ],
)
def test_dates_are_recognized_as_people_write_them(form: str) -> None:
    moments = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=31 * i) for i in range(60)]
    table = learned(pandas.DataFrame({"when": [moment.strftime(form) for moment in moments]}))
    whole = [datetime.datetime.strptime(moment.strftime(form), form) for moment in moments]
    x = table(pandas.DataFrame({"when": [moment.strftime(form) for moment in moments]}))
    for part in ("days", "month"):
        expected = [
            (m - datetime.datetime(1970, 1, 1)).total_seconds() / 86400 if part == "days" else m.month for m in whole
        ]
        np.testing.assert_allclose(x[:, table.features.index(f"when: {part}")], expected, rtol=1e-6)
    assert ("when: hour" in table.features) == ("%H" in form or "%I" in form)


@pytest.mark.parametrize("cells", [["1.2.20", "3.4.21"], ["10-20", "21-30"], ["1234-5", "4321-7"], ["100/1", "101/12"]])
def test_codes_and_ranges_are_no_dates(cells: list[str]) -> None:
    assert kind_of(pandas.Series(cells * 20), "a") == "category"


def test_columns_that_cannot_be_used_say_why() -> None:
    n = 400
    frame = pandas.DataFrame(
        {
            "x": RNG.normal(size=n),
            "wait": pandas.to_timedelta(np.arange(n), unit="h"),
            "wave": np.exp(1j * np.arange(n)),
            "street": [f"street {i // 2}" for i in range(n)],
        }
    )
    why = dict(learned(frame).left_out)
    assert why == {
        "wait": "cells of a type that cannot be used",
        "wave": "cells of a type that cannot be used",
        "street": "no category in enough rows",
    }
    assert dict(learned(frame.assign(street="Main"), street="category").left_out)["street"] == "constant"


def test_structures_and_lists_in_columns_of_arrow_cannot_be_used() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    rows = pyarrow.table({"a": [{"x": i} for i in range(20)], "b": [[i] for i in range(20)], "c": [1, 2, 3, None] * 5})
    frame = rows.to_pandas(types_mapper=pandas.ArrowDtype)
    assert learned(frame).names == ("c",) and {why for _, why in learned(frame).left_out} == {
        "cells of a type that cannot be used"
    }


def test_tables_that_are_almost_tables() -> None:
    gaps = np.where(RNG.random((40, 2)) < 0.2, np.nan, RNG.normal(size=(40, 2)))
    levels = pandas.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    assert learned(pandas.DataFrame(gaps, columns=levels)).names == ("('a', 'x')", "('a', 'y')")
    with pytest.raises(UserError, match="an array in each cell of the column 'm'"):
        as_frame(np.zeros(20, dtype=[("a", "f4"), ("m", "f4", (2,))]))

    class Lazy:  # like polars' lazy frame
        def collect_schema(self) -> None: ...

    with pytest.raises(UserError, match=r"collect\(\)"):
        learn_table([Lazy()], {})


def test_every_library_gives_the_same_numbers() -> None:
    frame = a_frame()
    expected = learned(frame)
    for other in others(frame):
        table = learned(other)
        assert table == expected
        np.testing.assert_array_equal(table(as_frame(other)), expected(frame))


def others(frame: Any) -> list[Any]:
    pyarrow = pytest.importorskip("pyarrow")
    found = [frame.astype({"job": "category"}), frame.to_records(index=False), pyarrow.Table.from_pandas(frame)]
    try:
        polars = importlib.import_module("polars")
    except ImportError:
        return found
    return [*found, polars.from_pandas(frame)]


def test_what_was_learned_is_json_and_what_is_wrong_with_it_is_said() -> None:
    table = learned(a_frame().assign(id=range(N)))
    written = json.dumps(table.to_config())
    assert TableInputs.from_config(json.loads(written)) == table
    for old, new in (
        ('"fill": ', '"fill": 1e999, "other": '),
        ('"fill": ', '"filling": '),
        ('"kind": "date"', '"kind": "year"'),
        ('"parts": [', '"parts": ["second", '),
        ('"rest": true', '"rest": 3'),
        ('"values": [', '"values": ["cook", '),
        ('"columns": [', '"columns": 3, "x": ['),
    ):
        assert old in written
        with pytest.raises((ValueError, TypeError)):
            TableInputs.from_config(json.loads(written.replace(old, new)))


def test_a_classifier_of_tables() -> None:
    frame = a_frame()
    y = np.where(np.arange(N) < 80, (frame.age.fillna(50) > 50).astype(int), -1)
    model = ICTClassifier(**QUICK).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["age", "job", "when", "member"]
    for other in others(frame):
        np.testing.assert_array_equal(
            ICTClassifier(**QUICK).fit(other, y).predict_proba(frame), model.predict_proba(frame)
        )
    apart = ICTClassifier(**QUICK).fit(frame[:80], y[:80], unlabeled_X=frame[80:])
    np.testing.assert_array_equal(apart.predict_proba(frame), model.predict_proba(frame))
    without = ICTClassifier(**QUICK, columns={"age": "ignore"}).fit(frame, y)
    np.testing.assert_array_equal(without.predict_proba(frame.assign(age=1)), without.predict_proba(frame))
    with pytest.raises(UserError, match="fitted to a table"):
        model.predict(np.zeros((2, 4)))


def test_a_table_that_changed_is_one_sentence() -> None:
    table, frame = learned(a_frame()), a_frame()
    with pytest.raises(UserError, match="lacks the column job"):
        table(frame.drop(columns="job"))
    with pytest.raises(UserError, match="'old' instead of a finite number in the column 'age' in row 0"):
        table(frame.assign(age="old"))
    with pytest.raises(UserError, match="numbers such as 3, but it had words such as"):
        table(frame.assign(job=3))
    with pytest.raises(UserError, match="'soon' instead of a date in the column 'when'"):
        table(frame.assign(when="soon"))
    with pytest.raises(UserError, match="'maybe' instead of true or false in the column 'member' in row 0: correct"):
        table(frame.assign(member="maybe"))


def test_sparse_matrices_are_vectors() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    X = np.where(RNG.random((N, 6)) < 0.3, RNG.normal(size=(N, 6)), 0.0)
    y = np.where(np.arange(N) < 80, (X[:, 0] > 0).astype(int), -1)
    expected = ICTClassifier(**QUICK).fit(X, y).predict_proba(X)
    for kind in (sparse.csr_matrix, sparse.coo_array):
        found = ICTClassifier(**QUICK).fit(kind(X), y).predict_proba(kind(X))
        np.testing.assert_array_equal(found, expected)
    wide = sparse.csr_matrix((3, 10**9))
    with pytest.raises(UserError, match="TruncatedSVD"):
        ICTClassifier(**QUICK).fit(wide, [0, 1, -1])
