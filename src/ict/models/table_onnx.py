"""A table's columns and the network fitted to them as one ONNX model, by standard operators of ai.onnx.ml.

There is one input a column, [rows, 1]: floats, NaN for a gap, or strings, the empty one for a gap.
"""

from typing import Any

import numpy as np

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.data.columns.frames import pandas_for
from ict.data.columns.table_inputs import Category, Date, Number, TableInputs
from ict.networks.onnx_graph import OPSET, package

FEATURES = "columns/features"
OUTPUTS = ("logits", "probabilities")
_ML = "ai.onnx.ml"
_ML_OPSET = 3
_UNSEEN = "\1 unseen"  # a word that no table has


def check_columns(table: TableInputs) -> None:
    """A UserError if a column can be no input."""
    for column in table.columns:
        if isinstance(column, Date):
            raise _dated(column)
        if column.name in OUTPUTS:
            raise UserError(f"the column '{column.name}' has the name of an output: rename it and fit again.")


def with_columns(table: TableInputs, student: Any, student_input: str) -> Any:
    """The model from a table's columns to what the student gives."""
    onnx = package("onnx")
    # the student's names begin with a word of their own, or they could be those of columns
    student = onnx.compose.add_prefix(student, "network/", rename_inputs=False, rename_outputs=False)
    first = _encoder(onnx, table)
    first.ir_version = student.ir_version
    return onnx.compose.merge_models(first, student, io_map=[(FEATURES, student_input)])


def example_columns(table: TableInputs, mean: Array, std: Array, n: int) -> tuple[list[Array], Array]:
    """`n` rows with gaps and unseen words as the exported model gets them, and as the student gets them."""
    draws = np.random.default_rng(n)
    place, found = 0, dict[str, Array]()
    for column in table.columns:
        if isinstance(column, Category):
            found[column.name] = draws.choice(np.array([*column.values, "", _UNSEEN], dtype=object), n)
        else:
            values = (draws.normal(size=n) * std[place] + mean[place]).astype(np.float32)
            found[column.name] = np.where(draws.random(n) < 0.2, np.float32(np.nan), values)
            if isinstance(column, Number) and column.boolean:
                found[column.name] = np.where(np.isnan(found[column.name]), np.nan, values > 0).astype(np.float32)
        place += len(column.features)
    frame = pandas_for("a table")
    return [cells[:, None] for cells in found.values()], table(frame.DataFrame(found))


def _encoder(onnx: Any, table: TableInputs) -> Any:
    """The model from columns to features."""
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes, inputs, parts = list[Any](), list[Any](), list[str]()
    for i, column in enumerate(table.columns):
        name, kind = f"columns/{i}", kinds.FLOAT
        if isinstance(column, Category):
            (made, last), kind = _words(helper, column, name), kinds.STRING
        elif isinstance(column, Number):
            made, last = _numbers(helper, column, name)
        else:
            raise _dated(column)
        inputs.append(helper.make_tensor_value_info(column.name, kind, ["batch", 1]))
        nodes += made
        parts += last
    nodes.append(helper.make_node("Concat", parts, [FEATURES], axis=1))
    output = helper.make_tensor_value_info(FEATURES, kinds.FLOAT, ["batch", len(table.features)])
    shared = [
        helper.make_tensor("columns/axis", kinds.INT64, [1], [1]),
        helper.make_tensor("columns/one", kinds.FLOAT, [], [1.0]),
    ]
    rest = any(isinstance(column, Category) and column.rest for column in table.columns)
    graph = helper.make_graph(nodes, "columns", inputs, [output], shared if rest else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(_ML, _ML_OPSET)])


def _numbers(helper: Any, column: Number, name: str) -> tuple[list[Any], list[str]]:
    """Nodes and outputs: the number, or the median for a gap, and whether there is one."""
    fill = {"imputed_value_floats": [column.fill], "replaced_value_float": float("nan")}
    nodes = [helper.make_node("Imputer", [column.name], [f"{name}/filled"], domain=_ML, **fill)]
    if not column.gaps:
        return nodes, [f"{name}/filled"]
    nodes.append(helper.make_node("IsNaN", [column.name], [f"{name}/is gap"]))
    nodes.append(helper.make_node("Cast", [f"{name}/is gap"], [f"{name}/gap"], to=1))
    return nodes, [f"{name}/filled", f"{name}/gap"]


def _words(helper: Any, column: Category, name: str) -> tuple[list[Any], list[str]]:
    """Nodes and outputs: 1 for the word that it is, and where rare ones share a feature, 1 there for all others."""
    words = {"cats_strings": [*column.values], "zeros": 1}
    nodes = [
        helper.make_node("OneHotEncoder", [column.name], [f"{name}/by word"], domain=_ML, **words),
        helper.make_node("Flatten", [f"{name}/by word"], [f"{name}/words"], axis=1),
    ]
    if not column.rest:
        return nodes, [f"{name}/words"]
    nodes.append(helper.make_node("ReduceSum", [f"{name}/words", "columns/axis"], [f"{name}/known"], keepdims=1))
    nodes.append(helper.make_node("Sub", ["columns/one", f"{name}/known"], [f"{name}/other"]))
    return nodes, [f"{name}/words", f"{name}/other"]


def _dated(column: Date) -> UserError:
    return UserError(
        f"ONNX has no dates, and the column '{column.name}' holds some: fit again with --columns {column.name}=ignore."
    )
