"""layout_mutants.py, which by hand changes every number that says where elements are, finds them in the sources."""

from __future__ import annotations

import pytest
from layout_numbers import LAYOUTS, Site, changed, extent_of, sites
from places import REPOSITORY


@pytest.mark.parametrize(("file", "names"), [(file, names) for file, names, _ in LAYOUTS])
def test_each_layout_is_in_its_file_and_has_numbers(file: str, names: str) -> None:
    lines = (REPOSITORY / "emulator" / "exec" / file).read_text().splitlines()
    assert all(extent_of(lines, name) for name in names.split())
    assert any(site.file == file for site in sites())


def test_one_number_is_changed_and_nothing_else() -> None:
    site = next(site for site in sites() if site.file == "tensor_memory/moves.cpp" and site.value == "4")
    text = (REPOSITORY / "emulator" / "exec" / site.file).read_text()
    new = changed([site], text)
    assert new.replace(f"MUTANT({site.number}, 4)", "4") == text
    different = [
        n for n, (a, b) in enumerate(zip(text.splitlines(), new.splitlines(), strict=True), 1) if a != b
    ]
    assert different == [site.line]


def test_what_holds_a_changed_number_is_no_constant() -> None:
    """In a table of constants it could not be changed when the driver is loaded; other constants stay what they are."""
    text = "constexpr int kept = 2;\nconstexpr int table[] = {1,\n                         2};\n"
    site = Site(7, "", 3, 25, "2", "2};", ())
    assert changed([site], text) == text.replace("constexpr int table", "const int table").replace(
        " 2}", " MUTANT(7, 2)}"
    )
    site.is_constant = True
    assert changed([site], text) == text.replace(" 2}", " (2 + 1)}")


def test_messages_operands_and_lengths_are_left_alone() -> None:
    found = [site.text for site in sites()]
    assert not any("refuse(" in text or text.startswith("return i + 1") for text in found)
    assert any("row / 8 * 16 + group % 4 * 4" in text for text in found)
