"""Run the notebooks under ``docs/notebooks`` and store what their cells show.

Cells are run in order in one namespace, in an empty folder. What a cell prints is kept
as text; its last expression as HTML where it shows itself, else as text.

Run: OMP_NUM_THREADS=1 PYTHONPATH=src python docs/make_notebooks.py
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

NOTEBOOKS = Path(__file__).parent / "notebooks"


def executed(notebook):
    """Return the outputs of all code cells, in order."""
    names = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            sources = ("".join(cell["source"]) for cell in code)
            return [_outputs(source, names, n) for n, source in enumerate(sources, 1)]
        finally:
            os.chdir(before)


def text_of(outputs):
    """Return what a cell shows as text: what it printed, and its value if not HTML."""
    printed = [line for out in outputs for line in out.get("text", [])]
    data = [out.get("data", {}) for out in outputs]
    plain = [each["text/plain"] for each in data if "text/html" not in each and each]
    return "".join([*printed, *("".join(lines) for lines in plain)])


def _outputs(source, names, count):
    tree = ast.parse(source)
    last = (
        tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    )
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data = {"text/plain": [f"<{type(value).__name__}>"]}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        else:
            data = {"text/plain": repr(value).splitlines(keepends=True)}
        head = {"output_type": "execute_result", "execution_count": count}
        outputs.append({**head, "metadata": {}, "data": data})
    return outputs


def main():
    for file in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(file.read_text())
        found = iter(executed(notebook))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for count, cell in enumerate(cells, 1):
            cell["outputs"], cell["execution_count"] = next(found), count
        file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        sys.stdout.write(f"{file.name}: {file.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
