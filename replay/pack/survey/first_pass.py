"""First pass over a raw capture: what each window is, what it uses, touches and launches.

Holds what is alive and what a window touched, never the calls themselves: those are read again when they are written.
One pass finds all windows, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from replay.api import graphs, structs
from replay.api.functions import by_symbol
from replay.api.graphs import Node
from replay.api.launch_attributes import describe_attribute, is_known
from replay.api.parts import (
    CONFIG_ATTRIBUTES,
    KERNEL_ATTRIBUTES,
    PARAMETER_LAYOUT,
    find_bytes,
    parameter_buffer,
)
from replay.api.vocabulary import STICKY_RESULTS, Effect, Moment, Role
from replay.pack.contents.allocations import Allocations
from replay.pack.contents.tensor_maps import TensorMaps
from replay.pack.survey.call_parts import is_image, launch_geometry, stream_of
from replay.pack.survey.findings import MAXIMUM_NOTES, KernelDraft, Survey
from replay.pack.survey.graphs import Descriptions, ExecutableGraphs, LaunchedNode
from replay.pack.survey.origins import (
    Identities,
    Images,
    array_bases,
    kernel_name,
    linear_address,
    modules_of,
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

# C type -> what a word of the census says it is the handle of
OBJECT_TYPES = {"CUtexObject": 1, "CUsurfObject": 2}

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
        self._graphs = ExecutableGraphs(descriptions, self._kernel_of_node)
        self.survey = Survey()  # of the present window, or of the one to come
        self.calls = 0
        self.initialised, self.init_failure = False, 0  # by cuInit; what it answered when it failed
        self.matched_launches = 0
        self.kernels_seen: dict[str, None] = {}
        self._images = images
        self._matched_names: dict[int, str] = {}
        self._names_of_handles: dict[int, str] = {}  # in this window, of kernels that no recorded call made
        self._noted: set[str] = set()  # functions that are not captured and were called
        self._under_way: dict[int, KernelDraft] = {}  # launches that the driver has not answered
        self._before_launch: list[int] = []  # places of their notes that wait for a launch
        self._modules_launched: set[int] = set()  # by id() of their Made
        self._parameter_words: set[int] = set()  # that might be handles of objects
        self._process_notes: list[RawNote] = []
        self._identities = Identities(images)
        self._refusals: set[tuple[str, int]] = set()
        self._tensor_maps = TensorMaps()
        self._repeated = Repeated(self.objects, self.allocations)

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
                words = self._parameter_words if self.objects.reached_by_handle else None
                self._repeated.count(event, self.survey, launches_words=words)
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
        count = self._repeated.known(rows)
        if self._before_launch or self._tensor_maps.known:
            count = self._repeated.first_launch(rows[:count])
        if self._matched_names and count:
            named = np.isin(rows[:count].numbers, [*self._matched_names])
            count = int(named.argmax()) if named.any() else count
        return count

    def _end_window(self) -> Survey:
        survey = self.survey
        self._use_reached_objects()
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
        self._matched_names.clear()
        self._names_of_handles.clear()
        self._noted.clear()
        self._repeated.forget()
        self._before_launch.clear()
        self._under_way.clear()
        self.origins.present.clear()
        self._modules_launched.clear()
        self._parameter_words.clear()
        self._refusals.clear()
        self.survey = Survey(
            process=dict(before.process),
            process_before=before.process,
            globals_named=set(before.globals_named),
        )
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
            self._matched_names[note.call] = note.text.partition(" ")[2]
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
            self._launch(call)
        elif call.of_class >= 0:
            self._repeated.begins(call, None, unnamed=False)
        elif call.function.effect == Effect.GRAPH_LAUNCH:
            self._graph_launch(call)

    def _leave(self, call: RawCall) -> None:
        context = call.arguments[0] if call.by_capture else self.objects.current_context(call.thread)
        ended = self.objects.apply(call)
        device = self.objects.device_of(context)
        self.allocations.apply(call, context, device, call.in_window, ended)
        if (draft := self._under_way.pop(call.number, None)) is not None:
            self._launched(call, draft)
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
            self._remember_handle(call.function.creates, handle or 0)
        if call.function.symbol in graphs.CHANGING:
            self._graphs.apply(call)
        if call.function.effect == Effect.GRAPH_LAUNCH:
            self._graph_launched(call, context, device)
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
            self._touch_words(copy)
            for handle in structs.copied_arrays(copy):
                self.allocations.touch(self.allocations.find_array("CUarray", handle))

    def _touch_words(self, data: bytes) -> list[int]:
        words: list[int] = np.frombuffer(data, dtype="<u8", count=len(data) // 8).tolist()
        for word in words:
            self.allocations.touch(self.allocations.find(word))
        return words

    def _not_captured(self, symbol: str, reason: str, call: int) -> None:
        """A function that no snapshot holds was called: noted once, with the launch after it that may depend on it."""
        survey = self.survey
        if symbol in self._noted:
            survey.note_counts["UNSUPPORTED_CALL"] += 1
            return
        self._noted.add(symbol)
        if len(survey.notes) < MAXIMUM_NOTES:
            self._before_launch.append(len(survey.notes))
        survey.note("UNSUPPORTED_CALL", reason, call, symbol)

    def _launch(self, call: RawCall) -> None:
        survey = self.survey
        survey.launches += 1
        handle = call.argument("f")
        made = self.objects.find("CUfunction", handle)
        name, image = self._identities.of(made)
        noted = self._matched_names.pop(call.number, "")
        if noted and noted != self._names_of_handles.get(handle):
            self._names_of_handles[handle] = noted
            self._repeated.forget()
        name = noted or name or self._names_of_handles.get(handle, "")
        unnamed = not name
        if unnamed:
            survey.unnamed_launches += 1
            if survey.unnamed_launches == 1:
                survey.note(
                    "FUNCTION_UNKNOWN", f"no recorded call made the function {handle:#x}", call.number
                )
            name = f"function_{handle:x}"
        for place in self._before_launch:
            note = survey.notes[place]
            text = f"{note.text}; launches from call {call.number} on ({name}) may depend on it"
            survey.notes[place] = replace(note, text=text)
        self._before_launch.clear()
        survey.images_used.add(image)
        self._modules_launched |= modules_of(made)
        survey.streams.add(stream_of(call))
        buffer = parameter_buffer(call.inputs)
        if buffer is not None and buffer.data is not None:
            words = self._touch_words(buffer.data)
            for _, found in self._tensor_maps.find(buffer.data):
                self.allocations.touch(self.allocations.find(found.address))
            if self.objects.reached_by_handle:
                self._parameter_words.update(words)
        draft = survey.kernels.get((image, name))
        if draft is None:
            layout, asked = (find_bytes(call.inputs, key) for key in (PARAMETER_LAYOUT, KERNEL_ATTRIBUTES))
            attributes = self._launch_attributes(call)
            draft = KernelDraft(
                name,
                image,
                *launch_geometry(call),
                layout,
                asked,
                launch_attributes=attributes,
                stack=self.origins.present.get(call.thread, 0),
            )
            survey.kernels[image, name] = draft
        draft.launches += 1
        self._under_way[call.number] = draft
        if call.of_class >= 0 and not noted:  # the name is that of this launch alone
            self._repeated.begins(call, draft, unnamed)

    def _launched(self, call: RawCall, draft: KernelDraft) -> None:
        """What the driver said of a launch. The geometry of one that it refused need fit no device."""
        if call.result != 0:
            draft.refused = draft.taken == 0
            return
        if draft.refused:
            draft.grid, draft.block, draft.shared_bytes = launch_geometry(call)
            draft.launch_attributes, draft.refused = self._launch_attributes(call), False
        draft.taken += 1

    def _launch_attributes(self, call: RawCall) -> list[str]:
        if call.function.meaning == "cuLaunchCooperativeKernel":
            return ["COOPERATIVE 1"]
        try:
            attributes = structs.read_launch_attributes(find_bytes(call.inputs, CONFIG_ATTRIBUTES) or b"")
        except ValueError:
            return []
        for attribute in attributes:
            if not is_known(attribute):
                text = f"launch attribute {attribute.id} is newer than this version: its value is replayed as it was"
                self.survey.note("STRUCT_POINTER", text, call.number, call.function.symbol)
        return [describe_attribute(attribute) for attribute in attributes]

    def _kernel_of_node(self, node: Node) -> tuple[str, str, frozenset[int]]:
        made = self.objects.find(*node.function)
        name, image = self._identities.find(made)
        return name or node.name, image, frozenset(modules_of(made))

    def _graph_launch(self, call: RawCall) -> None:
        """What the nodes of a graph launch and touch; once for each launch of the graph."""
        survey = self.survey
        self._matched_names.pop(call.number, None)
        survey.streams.add(call.argument("hStream"))
        executable = self._graphs.find(call.arguments[0])
        if executable is None or not executable.described:
            survey.launches += 1
            text = "its graph was made before the capture began, or could not be described"
            self._refused(call, text)
            return
        survey.graph_kernels[call.number] = executable.kernels
        context = self.objects.current_context(call.thread)
        device = self.objects.device_of(context)
        for address, size_bytes in executable.allocations().items():
            if address not in executable.left_over:
                self.allocations.graph_memory(address, size_bytes, context, device)
        for item in executable.nodes:
            if item.node.problem:
                self._refused(call, f"a {item.node.type_name} node: {item.node.problem}")
            for word in item.node.addresses():
                self.allocations.touch(self.allocations.find(word))
            for c_type, handle in item.node.handles():
                if c_type == "CUarray":
                    self.allocations.touch(self.allocations.find_array(c_type, handle))
            if item.node.type == graphs.NodeType.KERNEL and item.enabled and item.node.parameters:
                survey.launches += 1
                self._node_launch(item, call.thread)
            elif item.node.type == graphs.NodeType.KERNEL:
                survey.images_used.add(item.image)

    def _refused(self, call: RawCall, text: str) -> None:
        if (text, call.arguments[0]) not in self._refusals:
            self._refusals.add((text, call.arguments[0]))
            self.survey.note(
                "UNSUPPORTED_CALL", f"{call.function.symbol}: {text}", call.number, call.function.symbol
            )

    def _node_launch(self, item: LaunchedNode, thread: int) -> None:
        """What is known of where a node came from says more than where its graph was launched."""
        survey = self.survey
        name = item.name or f"function_{item.node.function[1]:x}"
        survey.images_used.add(item.image)
        self._modules_launched |= item.modules
        if self.objects.reached_by_handle:
            self._parameter_words.update(item.node.addresses())
        for _, found in self._tensor_maps.find(item.node.parts.get(graphs.Part.BUFFER, b"")):
            self.allocations.touch(self.allocations.find(found.address))
            survey.maps_in_graphs[found.encoded] = found
        draft = survey.kernels.get((item.image, name))
        if draft is None:
            parts = item.node.parts
            draft = KernelDraft(
                name, item.image, *item.node.geometry,
                parts.get(graphs.Part.LAYOUT), parts.get(graphs.Part.KERNEL),
                stack=item.node.stack or self.origins.present.get(thread, 0),
            )  # fmt: skip
            survey.kernels[item.image, name] = draft
        draft.launches += 1

    def _graph_launched(self, call: RawCall, context: int, device: int) -> None:
        """Memory that a launch leaves allocated, or frees for an earlier one."""
        executable = self._graphs.find(call.arguments[0])
        if executable is None:
            return
        moment = call.number if call.in_window else None
        for address in executable.freed:
            self.allocations.graph_frees(address, moment)
        for address, size_bytes in executable.left_over.items():
            self.allocations.graph_leaves(address, size_bytes, context, device, moment)

    def _use_reached_objects(self) -> None:
        """Texture and surface objects and references that were there when the window opened and that it may have used:
        those whose memory was touched, or whose handle is a parameter; references of a module that was launched."""
        touched = self.allocations.touched
        bases = {item.address for item in touched if item.kind == "array"}
        for made in self.objects.reached_by_handle:
            c_type, handle = made.key
            if c_type not in OBJECT_TYPES:
                reached = bool(modules_of(made) & self._modules_launched)
            else:
                reached = handle in self._parameter_words or any(base in bases for base in array_bases(made))
                place = linear_address(made.call)
                reached = reached or any(item.address <= place < item.end for item in touched)
            if reached:
                self.objects.use(made)
                self._remember_handle(c_type, handle)

    def _remember_handle(self, c_type: str, handle: int) -> None:
        if handle and c_type in OBJECT_TYPES:
            self.survey.handles.setdefault(handle, set()).add(OBJECT_TYPES[c_type])

    def _named_global(self, call: RawCall) -> None:
        name = find_bytes(call.inputs, "name")
        owner = next((self.objects.find(*handle) for handle in call.handles()), None)
        if name is not None and owner is not None:
            if call.by_capture and call.in_window and not self.objects.is_of_setup(owner):
                self.survey.asked_by_capture.add(call.number)
            _, image = self._identities.find(owner)
            self.survey.globals_named.add((image, name.decode("utf-8", "replace")))
