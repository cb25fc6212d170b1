"""The second count of a sheet finds what a parser finds, in every form in which XML may write cells."""

import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importledger_client.tables import sheet_xml
from importledger_client.tables.sheet_xml import scan

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TEXTS = ["", "Groß", "a&b"]
"""The shared texts of each workbook."""


class Written(NamedTuple):
    """A cell's type, its XML between start and end tag, whether it is filled and whether it is doubtful."""

    kind: str
    content: str
    is_filled: bool
    is_doubtful: bool = False


def written(path: Path, sheet: str, *, prefix: str = "") -> str:
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets><sheet name="S" r:id="r1"/></sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="r1" Target="worksheets/s.xml"/>'
        "</Relationships>",
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">'
        + "".join(f"<si><t>{escape(text)}</t></si>" for text in TEXTS)
        + "</sst>",
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><numFmts><numFmt numFmtId="164" formatCode="00000"/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></styleSheet>',
        "xl/worksheets/s.xml": f'<?xml version="1.0"?><{prefix}worksheet xmlns{":" + prefix[:-1] if prefix else ""}='
        f'"{MAIN}"><{prefix}cols><{prefix}col min="1"/></{prefix}cols>{sheet}</{prefix}worksheet>',
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return str(path)


def forms_of(prefix: str) -> st.SearchStrategy[Written]:
    """Cells as programs write them."""
    p = prefix

    def text_of(text: str, form: str) -> str:
        inner = {
            "plain": escape(text),
            "cdata": f"<![CDATA[{text}]]>" if text else "",
            "comment": f"{escape(text)}<!-- </{p}c> -->",
        }[form]
        return f"<{p}t>{inner}</{p}t>"

    texts = st.builds(
        text_of, st.sampled_from(["", " ", "Groß", "a<b>&c"]), st.sampled_from(["plain", "cdata", "comment"])
    )
    empty = {text_of("", form) for form in ("plain", "cdata", "comment")}
    inline = st.one_of(
        texts.map(lambda text: Written("inlineStr", f"<{p}is>{text}</{p}is>", text not in empty)),
        texts.map(lambda text: Written("inlineStr", f"<{p}is><{p}r><{p}rPr/>{text}</{p}r></{p}is>", text not in empty)),
        texts.map(lambda text: Written("inlineStr", f"<{p}is><{p}rPh sb='0'>{text}</{p}rPh></{p}is>", is_filled=False)),
    )
    values = st.one_of(
        st.sampled_from(range(len(TEXTS))).map(lambda at: Written("s", f"<{p}v>{at}</{p}v>", bool(TEXTS[at]))),
        st.integers(-9, 99_999_999).map(lambda number: Written("", f"<{p}v>{number}</{p}v>", is_filled=True)),
        st.just(Written("b", f"<{p}v>1</{p}v>", is_filled=True)),
        st.just(Written("e", f"<{p}v>#N/A</{p}v>", is_filled=False, is_doubtful=True)),
        st.just(Written("", f"<{p}f>A1+1</{p}f><{p}v>3</{p}v>", is_filled=True)),
        st.just(Written("str", f"<{p}f>A1&amp;B1</{p}f><{p}v></{p}v>", is_filled=False)),
        st.just(Written("", f"<{p}f>A1+1</{p}f>", is_filled=False, is_doubtful=True)),
        st.just(Written("", f"<{p}f t='shared' si='0'/>", is_filled=False, is_doubtful=True)),
        st.just(Written("", f"<{p}v></{p}v>", is_filled=False)),
        st.just(Written("", "", is_filled=False)),
    )
    return inline | values


@st.composite
def sheets(draw: st.DrawFn) -> tuple[str, str, list[set[int]], int]:
    """A prefix, the rows' XML, the filled positions of each row, and the number of doubtful cells."""
    p = draw(st.sampled_from(["", "x:"]))
    quote, gap = draw(st.sampled_from("\"'")), draw(st.sampled_from(["", "\n  "]))
    xml, filled, doubtful = f"<{p}sheetData>", list[set[int]](), 0
    for number in range(1, draw(st.integers(1, 4)) + 1):
        is_placed = draw(st.booleans())
        cells, positions = "", set[int]()
        places = draw(st.permutations(range(draw(st.integers(0, 4))))) if is_placed else range(draw(st.integers(0, 4)))
        for position in places:
            cell = draw(forms_of(p))
            attributes = [f"r={quote}{'ABCD'[position]}{number}{quote}"] if is_placed else []
            attributes += [f"t={quote}{cell.kind}{quote}"] if cell.kind else []
            attributes += [f"s={quote}0{quote}"] if draw(st.booleans()) else []
            start = f"{gap}<{' '.join([f'{p}c', *draw(st.permutations(attributes))])}"
            cells += f"{start}>{cell.content}</{p}c>" if cell.content or draw(st.booleans()) else f"{start}/>"
            positions |= {position} if cell.is_filled else set()
            doubtful += cell.is_doubtful
        comment = draw(st.sampled_from(["", f"<!-- <{p}c><{p}v>1</{p}v></{p}c> -->"]))
        xml += f"{comment}{gap}<{p}row r={quote}{number}{quote}>{cells}{gap}</{p}row>"
        filled.append(positions)
    return p, f"{xml}</{p}sheetData><{p}rowBreaks count='1'/>", filled, doubtful


@given(sheets(), st.sampled_from([300, 2**20]))
def test_every_form_of_a_cell_is_counted(sheet: tuple[str, str, list[set[int]], int], read_bytes: int) -> None:
    prefix, xml, filled, doubtful = sheet
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sheet_xml, "_READ_BYTES", read_bytes)
        found = scan(written(Path(folder) / "s.xlsx", xml, prefix=prefix), "S")
    rows = [positions for positions in filled if positions]
    assert found.rows == max(0, len(rows) - 1), "the first row is the header"
    for place in range(4):
        assert found.filled[place] == sum(place in positions for positions in rows[1:])
    shown = [sentence for _, _, sentence in found.doubts.items()]
    assert bool(shown) == bool(doubtful)


@pytest.mark.parametrize("part", ["<c>", "<c r='A1' ", "<!--", "<![CDATA[", "<c><is><rPh>", "<c t='inlineStr'><v>"])
def test_damaged_xml_takes_no_longer_than_other_xml(tmp_path: Path, part: str) -> None:
    """Each attempt to match would otherwise read the rest of the sheet: this test would take hours."""
    scan(written(tmp_path / "s.xlsx", f"<sheetData><row>{part * 200_000}</row></sheetData>"), "S")
