import base64
import html.parser
import io

import matplotlib
import pytest
from matplotlib.figure import Figure

from lecture_lib.figures import Drawing, course_style, show
from lecture_lib.quantity import LectureError


class Image(html.parser.HTMLParser):
    """The attributes of the one <img> in a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "img"
        self.found.append(dict(attrs))


def test_a_figure_is_an_image_with_its_text() -> None:
    alt = 'Bars of 14 GB and 84 GB. The second has "four" parts, 14 < 28.'
    shown = show(Figure(figsize=(10, 5)), alt=alt)
    (image,) = Image(shown._repr_html_()).found
    assert image["alt"] == alt
    assert image["width"] == "960" and image["style"] == "max-width:100%"
    head, _, data = str(image["src"]).partition(",")
    assert head == "data:image/png;base64" and base64.b64decode(data) == shown.png
    assert shown.png.startswith(b"\x89PNG") and b"Matplotlib" not in shown.png
    assert repr(shown) == "Figure: Bars of 14 GB and 84 GB."
    assert shown._repr_mimebundle_() == {"text/html": shown._repr_html_(), "text/plain": repr(shown)}


@pytest.mark.parametrize("alt", [None, "", "  \n "])
def test_no_figure_without_a_text(alt: str | None) -> None:
    with pytest.raises(LectureError, match="expected alternative text"):
        show(Figure(), alt=alt)


def test_a_text_cannot_leave_its_attribute() -> None:
    (image,) = Image(show(Figure(), alt='" onload="alert(1)"> <script>x</script>')._repr_html_()).found
    assert set(image) == {"alt", "src", "width", "style"}


def test_line_breaks_in_a_text_are_spaces() -> None:
    assert repr(show(Figure(), alt="One\n  sentence. Two.")) == "Figure: One sentence."


def test_a_drawing_brings_its_own_text() -> None:
    assert show(Drawing(Figure(), "Its own.")).alt == "Its own."
    assert show(Drawing(Figure(), "Its own."), alt="Another.").alt == "Another."


def test_a_pyplot_figure_is_closed() -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, _ = pyplot.subplots()
    show(figure, alt="Nothing.")
    assert figure.number not in pyplot.get_fignums()


def test_what_is_no_figure_is_refused() -> None:
    with pytest.raises(LectureError, match="expected a Matplotlib figure or a drawing; got int"):
        show(3, alt="Three.")  # type: ignore[arg-type]


def test_the_style_is_left_behind() -> None:
    before = matplotlib.rcParams["font.size"]
    with course_style():
        assert matplotlib.rcParams["font.size"] >= 14
    assert matplotlib.rcParams["font.size"] == before


def test_showing_twice_gives_the_same_bytes() -> None:
    def drawn() -> bytes:
        figure = Figure()
        figure.add_subplot().plot([1, 2])
        return show(figure, alt="A line.").png

    assert drawn() == drawn()


def test_notebooks_display_what_show_returns() -> None:
    from IPython.core.formatters import DisplayFormatter

    shown = show(Figure(), alt="A. B.")
    data, _ = DisplayFormatter().format(shown)
    assert data == {"text/html": shown._repr_html_(), "text/plain": "Figure: A."}
    assert io.BytesIO(shown.png).read(4) == b"\x89PNG"
