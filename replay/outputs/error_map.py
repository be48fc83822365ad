"""Where the elements of one stretch of memory differ, and how far: a bounded picture of it, whatever its size."""

from __future__ import annotations

from typing import Any

MAXIMUM_CELLS = 1024
NOT_COMPARABLE = (
    2.0  # the error of a pair of which only one is NaN, or infinite: as far apart as two numbers can be
)


class ErrorMap:
    """elements: of the stretch; it is cut into cells of equally many, a power of two, so that rows of tensors often
    begin with a cell. The error of a pair is its distance divided by the larger of both, from 0 to 2."""

    def __init__(self, elements: int) -> None:
        import numpy

        self.elements = elements
        self.cell_elements = 1
        while self.cell_elements * MAXIMUM_CELLS < elements:
            self.cell_elements *= 2
        count = -(-elements // self.cell_elements)
        self._differing = numpy.zeros(count, dtype=numpy.int64)
        self._largest = numpy.zeros(count)
        self.worst: tuple[float, int, bytes, bytes] | None = None  # error, element, expected and actual bytes

    def add(self, places: Any, errors: Any, expected: bytes, actual: bytes) -> None:
        """places: of differing elements, in order. errors: of each. expected, actual: their bytes."""
        import numpy

        if not len(places):
            return
        cells = places // self.cell_elements
        numpy.add.at(self._differing, cells, 1)
        numpy.maximum.at(self._largest, cells, errors)
        at = int(errors.argmax())
        if self.worst is None or float(errors[at]) > self.worst[0]:
            size = len(expected) // len(places)
            part = slice(at * size, (at + 1) * size)
            self.worst = float(errors[at]), int(places[at]), expected[part], actual[part]

    def cells(self) -> tuple[list[int], list[int], list[float]]:
        """Of cells that hold differing elements: their places, how many differ, and the largest error."""
        import numpy

        places = numpy.flatnonzero(self._differing)
        return places.tolist(), self._differing[places].tolist(), self._largest[places].tolist()


def relative_errors(expected: Any, actual: Any) -> Any:
    """Distances divided by the larger of both, from 0 to 2; NOT_COMPARABLE where one is NaN or infinite and the other
    is not. Both: equally many numbers."""
    import numpy

    a, b = expected.astype("<f8"), actual.astype("<f8")
    with numpy.errstate(all="ignore"):
        errors = numpy.abs(a - b) / numpy.maximum(numpy.maximum(numpy.abs(a), numpy.abs(b)), 2.0**-1022)
    usual = numpy.isfinite(a) & numpy.isfinite(b)
    alike = numpy.isnan(a) & numpy.isnan(b)
    return numpy.where(usual, numpy.minimum(errors, NOT_COMPARABLE), numpy.where(alike, 0.0, NOT_COMPARABLE))
