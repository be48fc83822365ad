"""First pass over a raw capture: what each window is, what it uses, touches and launches.

Holds what is alive and what a window touched, never the calls themselves: those are read again when they are written.
One pass finds all windows, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.api import graphs, structs
from replay.api.functions import by_symbol
from replay.api.parts import (
    find_bytes,
)
from replay.api.vocabulary import STICKY_RESULTS, Effect, Moment, Role
from replay.pack.contents.allocations import Allocations
from replay.pack.contents.tensor_maps import TensorMaps
from replay.pack.survey.call_parts import is_image
from replay.pack.survey.findings import MAXIMUM_NOTES, Survey
from replay.pack.survey.graphs import Descriptions
from replay.pack.survey.launches import OBJECT_TYPES, Launches
from replay.pack.survey.origins import (
    Identities,
    Images,
    kernel_name,
)
from replay.pack.survey.repeated import Repeated
from replay.pack.survey.stacks import ORIGIN_TEXTS, Stacks
from replay.pack.survey.state import Objects
from replay.raw.columns import Rows
from replay.raw.copies import RawCopy
from replay.raw.decode import Decoder
from replay.raw.events import Entered, Left, ProcessText, RawCall, RawContents, RawImage, RawNote
from replay.snapshot.schema import Fault

MAXIMUM_KERNELS_SEEN = 64

_TOUCHING = frozenset((Effect.WRITE, Effect.READ, Effect.COPY, Effect.CUSTOM))
_ADDRESS_ROLES = frozenset((Role.ADDRESS, Role.HOST_READ, Role.HOST_WRITE))

_DEVICE_ERROR = re.compile(r"(\d{1,9}) (\d) ?(.*)", re.DOTALL)  # CUresult, Moment, what the driver said

# Notes that hold for every window of a capture.
_OF_THE_PROCESS = frozenset(("CAPTURE_STOPPED", "CHILD_PROCESS", "IMAGE_UNKNOWN", "ORIGIN_UNKNOWN"))


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 20


class FirstPass:
    """Runs the first pass over one process.

    objects, allocations: what is alive. calls, matched_launches: of the whole process so far, in a window or not.
    kernels_seen: names that were looked up, the first few.
    """

    def __init__(self, images: Images) -> None:
        descriptions = Descriptions(images.read)
        self.objects = Objects(descriptions)
        self.allocations = Allocations()
        self.origins = Stacks()
        self.survey = Survey()  # of the present window, or of the one to come
        self.calls = 0
        self.initialised, self.init_failure = False, 0  # by cuInit; what it answered when it failed
        self.matched_launches = 0
        self.kernels_seen: dict[str, None] = {}
        self._images = images
        self._noted: set[str] = set()  # functions that are not captured and were called
        self._process_notes: list[RawNote] = []
        self._identities = Identities(images)
        self._tensor_maps = TensorMaps()
        self._repeated = Repeated(self.objects, self.allocations)
        self._launches = Launches(
            self.objects, self.allocations, self._identities, self.origins, self._tensor_maps, self._repeated,
            descriptions,
        )  # fmt: skip
        self._launches.begin_window(self.survey)

    def windows(self, decoder: Decoder) -> Iterator[Survey]:
        """The windows in their order, each when the next one opens or the file ends. The decoder's `ending` and
        `open_calls` hold when the last one is given out.

        `survey` is what was found outside of any window when there is none.
        """
        for event in decoder.events(self):
            if isinstance(event, Entered):
                self._enter(event.call)
            elif isinstance(event, Left):
                self._leave(event.call)
            elif isinstance(event, Rows):
                self.calls += len(event)
                self._repeated.count(event, self.survey, launches_words=self._launches.reaching_words)
            elif isinstance(event, (RawContents, RawCopy)):
                if not self._inside():
                    continue
                context = self.objects.current_context(event.thread)
                device = self.objects.device_of(context)
                self.allocations.contents(event, context, device)
            elif isinstance(event, RawImage):
                self.survey.images_used.add(self._images.copied(event))
            elif isinstance(event, RawNote):
                if event.code == "WINDOW_OPEN":
                    if self.survey.opened:
                        yield self._end_window()
                        self._begin_survey()
                    self._open_window(decoder.open_calls)
                self._note(event)
            elif isinstance(event, ProcessText):
                self._process_text(event)
        if self.survey.opened:
            self.survey.last = True
            yield self._end_window()

    def _open_window(self, under_way: dict[int, RawCall]) -> None:
        """under_way: calls of other threads. What they make and end is there, or gone, before the window."""
        for call in under_way.values():
            call.in_window = False
        self.objects.open_window(under_way)

    def take(self, rows: Rows) -> int:
        """Calls that do what an earlier one of the window did (`decode.Ordinary`)."""
        if not self._inside():
            return 0
        return self._launches.ordinary(rows, self._repeated.known(rows))

    def _end_window(self) -> Survey:
        survey = self.survey
        self._launches.use_reached_objects()
        survey.tensor_maps = self._tensor_maps.copy()
        for found in survey.maps_in_graphs.values():
            survey.tensor_maps.known.setdefault(found.encoded, found)
            survey.tensor_maps.use(found)
        survey.touched = self.allocations.end_window()
        survey.setup = list(self.objects.setup_calls(item.context for item in survey.touched))
        self.objects.end_window()
        return survey

    def _begin_survey(self) -> None:
        before = self.survey
        self._noted.clear()
        self._repeated.forget()
        self.origins.present.clear()
        self.survey = Survey(
            process=dict(before.process),
            process_before=before.process,
            globals_named=set(before.globals_named),
        )
        self._launches.begin_window(self.survey)
        for note in self._process_notes:
            self.survey.note(note.code, note.text, note.call, note.function)

    def _inside(self) -> bool:
        return self.survey.opened and not self.survey.closed

    def _process_text(self, text: ProcessText) -> None:
        for key, value in text.values.items():
            name, _, call = key.rpartition(".")
            if name in ORIGIN_TEXTS:
                self.origins.take(name, call, value, self.survey.origins)
            elif name == "gpu_time_ns" and _is_number(call) and _is_number(value):
                self.survey.gpu_times_ns[int(call)] = int(value)
            else:
                self.survey.process[key] = value
                if key == "perturbation.launches_matched" and _is_number(value):
                    self.matched_launches = max(self.matched_launches, int(value))

    def _note(self, note: RawNote) -> None:
        survey = self.survey
        if note.code in ("LAUNCH_MATCHED", "NO_WINDOW"):
            ordinal = note.text.partition(" ")[0]
            if _is_number(ordinal):
                self.matched_launches = max(self.matched_launches, int(ordinal))
        if note.code == "LAUNCH_MATCHED":
            if note.call == 0:
                return  # outside a window, and there may be millions
            self._launches.matched_names[note.call] = note.text.partition(" ")[2]
        elif note.code == "WINDOW_OPEN":
            self._repeated.forget()
            survey.opened, survey.opened_call, survey.opened_by = True, note.call, note.text
        elif note.code == "WINDOW_CLOSE":
            survey.closed, survey.closed_call = True, note.call
        elif note.code in _OF_THE_PROCESS and len(self._process_notes) < MAXIMUM_NOTES:
            self._process_notes.append(note)
        elif note.code == "UNSUPPORTED_CALL":
            symbol, _, reason = note.text.partition(": ")
            if symbol in by_symbol():
                self._not_captured(symbol, reason, note.call)
                return
        elif note.code == "DEVICE_ERROR" and (error := _DEVICE_ERROR.match(note.text)):
            before = note.call == survey.opened_call and int(error[2]) == Moment.BEFORE
            survey.faulted(Fault(int(error[1]), before=before, words=error[3].strip()))
        survey.note(note.code, note.text, note.call, note.function)

    def _enter(self, call: RawCall) -> None:
        survey = self.survey
        self.calls += 1
        self.allocations.enter(call)
        call.in_window = self._inside()
        if not call.in_window or call.by_capture:
            return
        survey.window_calls += 1
        survey.functions[call.function.symbol] += 1
        survey.threads.add(call.thread)
        self.objects.enter_in_window(call)
        if call.in_capture:
            return
        self._touch_arguments(call)
        if call.function.unsupported and call.function.symbol not in self._noted:
            self._not_captured(call.function.symbol, call.function.unsupported, call.number)
        for key, attachment in call.inputs.items():
            if is_image(call, key):
                survey.images_used.add(self._images.digest(attachment))
        if call.function.effect == Effect.LAUNCH:
            self._launches.launch(call)
        elif call.of_class >= 0:
            self._repeated.begins(call, None, unnamed=False)
        elif call.function.effect == Effect.GRAPH_LAUNCH:
            self._launches.graph_launch(call)

    def _leave(self, call: RawCall) -> None:
        context = call.arguments[0] if call.by_capture else self.objects.current_context(call.thread)
        ended = self.objects.apply(call)
        device = self.objects.device_of(context)
        self.allocations.apply(call, context, device, call.in_window, ended)
        self._launches.answered(call)
        self._repeated.ends(call)
        if call.in_window and call.result in STICKY_RESULTS:
            self.survey.faulted(Fault(call.result, call.number, call.function.symbol))
        if call.function.symbol == "cuInit" and not call.by_capture:
            self.initialised = self.initialised or call.result == 0
            self.init_failure = call.result or self.init_failure
        if call.result != 0 or call.in_capture:
            return
        self._tensor_maps.apply(call)
        if call.in_window and call.function.creates in OBJECT_TYPES:
            handle = call.output_word(call.function.parameters[0].name)
            self._launches.remember_handle(call.function.creates, handle or 0)
        if call.function.symbol in graphs.CHANGING:
            self._launches.graphs.apply(call)
        if call.function.effect == Effect.GRAPH_LAUNCH:
            self._launches.graph_launched(call, context, device)
        if call.function.effect == Effect.GLOBAL:
            self._named_global(call)
        if (name := kernel_name(call)) and len(self.kernels_seen) < MAXIMUM_KERNELS_SEEN:
            self.kernels_seen[name] = None

    def _touch_arguments(self, call: RawCall) -> None:
        """Memory that a call names is touched, whether its contents could be read or not."""
        if call.function.effect not in _TOUCHING:
            return
        for parameter, word in zip(call.function.parameters, call.arguments, strict=True):
            if parameter.role in _ADDRESS_ROLES:
                self.allocations.touch(self.allocations.find(word))
            elif parameter.c_type == "CUarray":
                self.allocations.touch(self.allocations.find_array("CUarray", word))
        if copy := find_bytes(call.inputs, "pCopy"):
            self.allocations.touch_words(copy)
            for handle in structs.copied_arrays(copy):
                self.allocations.touch(self.allocations.find_array("CUarray", handle))

    def _not_captured(self, symbol: str, reason: str, call: int) -> None:
        """A function that no snapshot holds was called: noted once, with the launch after it that may depend on it."""
        survey = self.survey
        if symbol in self._noted:
            survey.note_counts["UNSUPPORTED_CALL"] += 1
            return
        self._noted.add(symbol)
        self._launches.wait()
        survey.note("UNSUPPORTED_CALL", reason, call, symbol)

    def _named_global(self, call: RawCall) -> None:
        name = find_bytes(call.inputs, "name")
        owner = next((self.objects.find(*handle) for handle in call.handles()), None)
        if name is not None and owner is not None:
            if call.by_capture and call.in_window and not self.objects.is_of_setup(owner):
                self.survey.asked_by_capture.add(call.number)
            _, image = self._identities.find(owner)
            self.survey.globals_named.add((image, name.decode("utf-8", "replace")))
