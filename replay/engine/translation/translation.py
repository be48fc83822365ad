"""What captured values are in this process; `Translation.patch` is the one place that changes captured bytes.

The words of bytes are known from their site: the census that the capture took, or where it took none, as of the nodes
of graphs, what their looks tell (`Translation.look`). Bytes of the host that have no census are guessed (`guess`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from replay.api.extents import Extent
from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect
from replay.engine.census import NOTHING, HandleWord, Site, Word
from replay.engine.driver import Driver
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.devices import Devices
from replay.engine.program import Program
from replay.engine.translation.contexts import CurrentContext
from replay.engine.translation.handles import HandleMap, captured_handles
from replay.engine.translation.tensor_maps import LiveMaps
from replay.engine.translation.words import (
    patch_chosen,
    patch_columns,
    patch_lookalikes,
    patch_words,
    points_to_unplaced,
)

# A word of this size or more is no index and no count.
SMALLEST_CERTAIN_HANDLE = 1 << 32
_SMALLEST_ADDRESS = 4096

_OBJECTS = ("CUtexObject", "CUsurfObject")  # what kernels reach by words in their parameters and memory
_OF_ITS_GRAPH = "object of a graph"


class Late(NamedTuple):
    """A handle or address that is filled in when the call runs. place: position of the argument, or live address of the
    word. extent, argument, write: of an address, as `AddressMap.access` takes them; nothing follows one without."""

    place: int
    c_type: str
    captured: int
    extent: Extent = Extent(0, 0)
    argument: str = ""
    write: bool = False


class Translation:
    """Of one snapshot on one driver. note: gets what cannot be told. notation: the driver executes nothing, so it
    encodes no tensor maps and gives no handles that bytes of the host could hold."""

    def __init__(
        self,
        driver: Driver,
        program: Program,
        addresses: AddressMap,
        devices: Devices,
        note: Callable[[str], None],
        *,
        notation: bool = False,
    ) -> None:
        self.addresses, self.devices, self.census, self._note = addresses, devices, program.census, note
        maps = {} if notation else program.tensor_maps
        self.maps = LiveMaps(driver, program.attachments, addresses, maps, note)
        self.window_objects: set[tuple[str, int]] = set()  # captured handles that the window itself gives out
        self._certain: dict[int, list[str]] = {}  # captured handles that no number is as large as -> C types
        calls = [(call, by_symbol().get(call.function)) for call in program.kinds()]
        for call, function in calls:
            if function is None or function.creates not in _OBJECTS or function.gives is None:
                continue
            for handle in captured_handles(call, function.gives.name):
                if call.section == "window":
                    self.window_objects.add((function.creates, handle))
                if not notation and handle >= SMALLEST_CERTAIN_HANDLE:
                    self._certain.setdefault(handle, []).append(function.creates)
        self.handles = HandleMap(self._certain)
        self.contexts = CurrentContext(driver, devices, self.handles)
        for call, function in calls:
            if (
                function is not None
                and function.effect == Effect.RETAIN_PRIMARY
                and function.gives is not None
            ):
                # A device has one primary context, and it lives already, also when the window is the whole program.
                for captured in captured_handles(call, function.gives.name):
                    self.handles.bind("CUcontext", captured, devices.primary(call.arguments[1]))

    # -- single values ------------------------------------------------------------------------------------------

    def live(self, late: Late, where: str) -> int:
        """The live value for a captured one, now. Raises EngineError where there is none."""
        if late.c_type == "CUdeviceptr":
            return self.addresses.access(late.captured, late.extent, where, late.argument, late.write)
        return self.handles.live(late.c_type, late.captured, where)

    def known(self, late: Late) -> int | None:
        """The live value in every run of the window, as far as the setup tells; None where that is not
        known."""
        if late.c_type == "CUdeviceptr":
            offset, size_bytes = late.extent
            if self.addresses.may_change(late.captured + offset):
                return None
            live = self.addresses.reach(late.captured + offset, size_bytes, late.write)
            return None if live is None else (live - offset) % 2**64
        if late.c_type == "CUgraphExec":
            return None  # one that the window changes is made again for the next iteration
        return self.handles.find(late.c_type, late.captured)

    def window_makes(self, words: Iterable[HandleWord]) -> bool:
        """Whether the window itself gives out any of these objects, so that they have to be looked up when they are
        used."""
        return any((word.c_type, word.captured) in self.window_objects for word in words)

    def object(self, candidates: Sequence[HandleWord], whole: bool, where: str = "") -> int | None:
        """The live handle for a word that may be that of one of these objects; None, with a note, where a number may be
        meant. whole: it is one parameter; a number inside a struct is taken for a handle only if it is too large to be
        anything else."""
        captured = candidates[0].captured
        found = {self.handles.find(word.c_type, captured) for word in candidates} - {None}
        live = found.pop() if len(found) == 1 else None
        trusted = whole or captured >= SMALLEST_CERTAIN_HANDLE
        if found or (live not in (None, captured) and not trusted):
            self._note(
                f"{f'{where}: ' if where else ''}the word {captured:#x} at offset {candidates[0].offset} of what it is "
                "given may be the handle of an object that has another one here; it was left as it is"
            )
            return None
        return live

    # -- bytes --------------------------------------------------------------------------------------------------

    def patch(
        self,
        data: bytearray,
        site: Site,
        start: int = 0,
        *,
        whole: Collection[int] = (),
        own: Mapping[int, int] | None = None,
        where: str = "",
    ) -> None:
        """Replace what `site` says of `data`, which begins at its offset `start`, where it is still the captured value.

        whole: offsets of words that are a parameter each. own: objects that only the graph of these bytes has.
        """
        captured_bytes = bytes(data) if site.chosen else b""
        self.maps.patch(data, start, site.maps)  # before the addresses, of which some are in a map
        patch_words(data, start, site.words, self.addresses)
        for offset, candidates in by_place(site.handles).items():
            at, captured = offset - start, candidates[0].captured
            if at < 0 or int.from_bytes(data[at : at + 8], "little") != captured or at + 8 > len(data):
                continue
            of_graph = own is not None and candidates[0].c_type == _OF_ITS_GRAPH
            live = own.get(captured) if of_graph and own else self.object(candidates, offset in whole, where)
            if live is not None:
                data[at : at + 8] = live.to_bytes(8, "little")
        patch_chosen(data, captured_bytes, site.chosen, self.addresses)

    def patch_columns(self, data: Any, places: Any, targets: Any) -> None:
        """The same for the words of many sites at once: each of numpy bytes `data` at one of `places`, where it still
        holds the captured address. All targets are known to stay where they are (`AddressMap.find_all`)."""
        patch_columns(data, places, targets, self.addresses)

    def look(self, data: bytes, slots: Iterable[tuple[int, int]], own: Mapping[int, int]) -> Site:
        """The site of parameters, at (offset, bytes) each, of which the capture took no census: words that look like
        what is known. own: objects that only the graph of these parameters has."""
        site = Site(maps=self.maps.find(data))
        for start, size_bytes in slots:
            for at in range(-(-start // 8) * 8, start + size_bytes - 7, 8):
                word = int.from_bytes(data[at : at + 8], "little")
                certain = size_bytes == 8 or word >= SMALLEST_CERTAIN_HANDLE
                if certain and word in own:
                    site.handles.append(HandleWord(at, _OF_ITS_GRAPH, word))
                elif word > _SMALLEST_ADDRESS and self.addresses.find(word) is not None:
                    site.words.append(Word(at, word))
                elif word:
                    types = _OBJECTS if size_bytes == 8 else self._certain.get(word, ())
                    site.handles += [
                        HandleWord(at, c_type, word)
                        for c_type in types
                        if self.handles.find(c_type, word) is not None
                    ]
        return site

    def guess(self, data: bytes, site: Site = NOTHING) -> tuple[bytes, int]:
        """`data`, of which there is no census, with what looks like a pointer into moved memory made to follow it, and
        how many such words there are; but for those that `site` has chosen."""
        guessed, count = patch_lookalikes(data, self.addresses)
        if site.chosen:
            changed = bytearray(guessed)
            patch_chosen(changed, data, site.chosen, self.addresses)
            guessed = bytes(changed)
        return guessed, count

    def unplaced_words(self, data: bytes) -> int:
        """How many words of `data` look like pointers to memory that is placed later."""
        return points_to_unplaced(data, self.addresses)

    def certain_objects(self, data: bytes) -> list[list[HandleWord]]:
        """The words of `data` that can only be handles of objects: what each may be."""
        if not self._certain or len(data) < 8:
            return []
        import numpy

        words = numpy.frombuffer(data, "<u8", len(data) // 8)
        places = numpy.flatnonzero(numpy.isin(words, numpy.array(sorted(self._certain), "<u8"))).tolist()
        found = ((8 * place, int(words[place])) for place in places)
        return [[HandleWord(at, c_type, word) for c_type in self._certain[word]] for at, word in found]


def by_place(words: Iterable[HandleWord]) -> dict[int, list[HandleWord]]:
    """A texture and a surface may have the same handle: what each place may hold."""
    places: dict[int, list[HandleWord]] = {}
    for word in words:
        places.setdefault(word.offset, []).append(word)
    return places


def put_word(address: int, value: int) -> None:
    """Write 8 bytes of this process."""
    ctypes.c_uint64.from_address(address).value = value
