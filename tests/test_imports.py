"""Imports run one way, inside a floor too; ``make lint`` watches the floors."""

from graphlib import TopologicalSorter

import grimp


def test_no_files_import_each_other_in_a_circle():
    how = {"cache_dir": None, "exclude_type_checking_imports": True}
    graph = grimp.build_graph("tepui", **how)
    imported = {
        module: graph.find_modules_directly_imported_by(module)
        for module in graph.modules
    }
    assert len(imported) > 200
    TopologicalSorter(imported).prepare()  # names the files of a circle
