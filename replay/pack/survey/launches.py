"""Launches of a window, for the first pass: their kernels, and what their parameters and the nodes of graphs reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.api import graphs, structs
from replay.api.graphs import Node
from replay.api.launch_attributes import describe_attribute, is_known
from replay.api.parts import (
    CONFIG_ATTRIBUTES,
    KERNEL_ATTRIBUTES,
    PARAMETER_LAYOUT,
    find_bytes,
    parameter_buffer,
)
from replay.pack.contents.allocations import Allocations
from replay.pack.contents.tensor_maps import TensorMaps
from replay.pack.survey.call_parts import launch_geometry, stream_of
from replay.pack.survey.findings import MAXIMUM_NOTES, KernelDraft, Survey
from replay.pack.survey.graphs import Descriptions, ExecutableGraphs, LaunchedNode
from replay.pack.survey.origins import Identities, array_bases, linear_address, modules_of
from replay.pack.survey.repeated import Repeated
from replay.pack.survey.stacks import Stacks
from replay.pack.survey.state import Objects
from replay.raw.columns import Rows
from replay.raw.events import RawCall

# C type -> what a word of the census says it is the handle of
OBJECT_TYPES = {"CUtexObject": 1, "CUsurfObject": 2}


class Launches:
    """graphs: the executable ones alive. matched_names: by call number, of launches that the selection matched and
    that have not begun."""

    def __init__(
        self, objects: Objects, allocations: Allocations, identities: Identities, stacks: Stacks,
        tensor_maps: TensorMaps, repeated: Repeated, descriptions: Descriptions,
    ) -> None:  # fmt: skip
        self._objects, self._allocations, self._identities = objects, allocations, identities
        self._stacks, self._tensor_maps, self._repeated = stacks, tensor_maps, repeated
        self.graphs = ExecutableGraphs(descriptions, self._kernel_of_node)
        self.begin_window(Survey())

    def begin_window(self, survey: Survey) -> None:
        """survey: of the window that is now the present one."""
        self.survey = survey
        self.matched_names: dict[int, str] = {}
        self._names_of_handles: dict[int, str] = {}  # of kernels that no recorded call made
        self._under_way: dict[int, KernelDraft] = {}  # launches that the driver has not answered
        self._notes_waiting: list[int] = []  # places of notes that wait for a launch
        self._modules_launched: set[int] = set()  # by id() of their Made
        self._parameter_words: set[int] = set()  # that might be handles of objects
        self._refusals: set[tuple[str, int]] = set()

    @property
    def reaching_words(self) -> set[int] | None:
        """Where words of parameters are kept that might be handles of objects; None when there are no such objects."""
        return self._parameter_words if self._objects.reached_by_handle else None

    def wait(self) -> None:
        """The note that comes next tells of the launch after it."""
        if len(self.survey.notes) < MAXIMUM_NOTES:
            self._notes_waiting.append(len(self.survey.notes))

    def ordinary(self, rows: Rows, count: int) -> int:
        """How many of the first `count` calls come before a launch that has to be looked at."""
        if self._notes_waiting or self._tensor_maps.known:
            count = self._repeated.first_launch(rows[:count])
        if self.matched_names and count:
            named = np.isin(rows[:count].numbers, [*self.matched_names])
            count = int(named.argmax()) if named.any() else count
        return count

    def launch(self, call: RawCall) -> None:
        survey = self.survey
        survey.launches += 1
        handle = call.argument("f")
        made = self._objects.find("CUfunction", handle)
        name, image = self._identities.of(made)
        noted = self.matched_names.pop(call.number, "")
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
        for place in self._notes_waiting:
            note = survey.notes[place]
            text = f"{note.text}; launches from call {call.number} on ({name}) may depend on it"
            survey.notes[place] = replace(note, text=text)
        self._notes_waiting.clear()
        survey.images_used.add(image)
        self._modules_launched |= modules_of(made)
        survey.streams.add(stream_of(call))
        buffer = parameter_buffer(call.inputs)
        if buffer is not None and buffer.data is not None:
            words = self._allocations.touch_words(buffer.data)
            for _, found in self._tensor_maps.find(buffer.data):
                self._allocations.touch(self._allocations.find(found.address))
            if self._objects.reached_by_handle:
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
                stack=self._stacks.present.get(call.thread, 0),
            )
            survey.kernels[image, name] = draft
        draft.launches += 1
        self._under_way[call.number] = draft
        if call.of_class >= 0 and not noted:  # the name is that of this launch alone
            self._repeated.begins(call, draft, unnamed)

    def answered(self, call: RawCall) -> None:
        """What the driver said of a launch. The geometry of one that it refused need fit no device."""
        if (draft := self._under_way.pop(call.number, None)) is None:
            return
        if call.result != 0:
            draft.refused = draft.taken == 0
            return
        if draft.refused:
            draft.grid, draft.block, draft.shared_bytes = launch_geometry(call)
            draft.launch_attributes, draft.refused = self._launch_attributes(call), False
        draft.taken += 1

    def graph_launch(self, call: RawCall) -> None:
        """What the nodes of a graph launch and touch; once for each launch of the graph."""
        survey = self.survey
        self.matched_names.pop(call.number, None)
        survey.streams.add(call.argument("hStream"))
        executable = self.graphs.find(call.arguments[0])
        if executable is None or not executable.described:
            survey.launches += 1
            text = "its graph was made before the capture began, or could not be described"
            self._refused(call, text)
            return
        survey.graph_kernels[call.number] = executable.kernels
        context = self._objects.current_context(call.thread)
        device = self._objects.device_of(context)
        for address, size_bytes in executable.allocations().items():
            if address not in executable.left_over:
                self._allocations.graph_memory(address, size_bytes, context, device)
        for item in executable.nodes:
            if item.node.problem:
                self._refused(call, f"a {item.node.type_name} node: {item.node.problem}")
            for word in item.node.addresses():
                self._allocations.touch(self._allocations.find(word))
            for c_type, handle in item.node.handles():
                if c_type == "CUarray":
                    self._allocations.touch(self._allocations.find_array(c_type, handle))
            if item.node.type == graphs.NodeType.KERNEL and item.enabled and item.node.parameters:
                survey.launches += 1
                self._node_launch(item, call.thread)
            elif item.node.type == graphs.NodeType.KERNEL:
                survey.images_used.add(item.image)

    def graph_launched(self, call: RawCall, context: int, device: int) -> None:
        """Memory that a launch leaves allocated, or frees for an earlier one."""
        executable = self.graphs.find(call.arguments[0])
        if executable is None:
            return
        moment = call.number if call.in_window else None
        for address in executable.freed:
            self._allocations.graph_frees(address, moment)
        for address, size_bytes in executable.left_over.items():
            self._allocations.graph_leaves(address, size_bytes, context, device, moment)

    def use_reached_objects(self) -> None:
        """Texture and surface objects and references that were there when the window opened and that it may have used:
        those whose memory was touched, or whose handle is a parameter; references of a module that was launched."""
        touched = self._allocations.touched
        bases = {item.address for item in touched if item.kind == "array"}
        for made in self._objects.reached_by_handle:
            c_type, handle = made.key
            if c_type not in OBJECT_TYPES:
                reached = bool(modules_of(made) & self._modules_launched)
            else:
                reached = handle in self._parameter_words or any(base in bases for base in array_bases(made))
                place = linear_address(made.call)
                reached = reached or any(item.address <= place < item.end for item in touched)
            if reached:
                self._objects.use(made)
                self.remember_handle(c_type, handle)

    def remember_handle(self, c_type: str, handle: int) -> None:
        if handle and c_type in OBJECT_TYPES:
            self.survey.handles.setdefault(handle, set()).add(OBJECT_TYPES[c_type])

    def _node_launch(self, item: LaunchedNode, thread: int) -> None:
        """What is known of where a node came from says more than where its graph was launched."""
        survey = self.survey
        name = item.name or f"function_{item.node.function[1]:x}"
        survey.images_used.add(item.image)
        self._modules_launched |= item.modules
        if self._objects.reached_by_handle:
            self._parameter_words.update(item.node.addresses())
        for _, found in self._tensor_maps.find(item.node.parts.get(graphs.Part.BUFFER, b"")):
            self._allocations.touch(self._allocations.find(found.address))
            survey.maps_in_graphs[found.encoded] = found
        draft = survey.kernels.get((item.image, name))
        if draft is None:
            parts = item.node.parts
            draft = KernelDraft(
                name, item.image, *item.node.geometry,
                parts.get(graphs.Part.LAYOUT), parts.get(graphs.Part.KERNEL),
                stack=item.node.stack or self._stacks.present.get(thread, 0),
            )  # fmt: skip
            survey.kernels[item.image, name] = draft
        draft.launches += 1

    def _kernel_of_node(self, node: Node) -> tuple[str, str, frozenset[int]]:
        made = self._objects.find(*node.function)
        name, image = self._identities.find(made)
        return name or node.name, image, frozenset(modules_of(made))

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

    def _refused(self, call: RawCall, text: str) -> None:
        if (text, call.arguments[0]) not in self._refusals:
            self._refusals.add((text, call.arguments[0]))
            self.survey.note(
                "UNSUPPORTED_CALL", f"{call.function.symbol}: {text}", call.number, call.function.symbol
            )
