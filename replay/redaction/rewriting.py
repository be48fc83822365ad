"""Writes a snapshot anew, object by object, with other texts and images, and with contents as a level wants them.

Objects of kinds that this version does not know could hold anything, and end it; fields that it does not know are left
out. Names of kernels, variables and driver functions stay: calls find what they need by them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, Literal

from blake3 import blake3

from replay.api.functions import by_symbol
from replay.api.parts import PARAMETERS
from replay.api.vocabulary import NoteCode, Role
from replay.errors import FormatError, ImageError
from replay.images.stripped import stripped
from replay.inspection.pieces import read_contents
from replay.pack.texts import Texts, names_a_file
from replay.privacy import REMOVED, private
from replay.redaction.names import Names, renamed_keys
from replay.snapshot import schema
from replay.snapshot.calls import CONSTANT_INPUTS
from replay.snapshot.container import DIGEST_BYTES, SnapshotReader, SnapshotWriter
from replay.snapshot.container.objects import BLOCK_KIND, CHUNK_KINDS, KINDS_IN_BLOCKS, block_fields, in_block
from replay.snapshot.extract import copy_contents
from replay.snapshot.schema import (
    CHUNK_BYTES,
    KINDS,
    Attachment,
    Call,
    Change,
    Contents,
    Range,
    from_wire,
    to_wire,
)
from replay.snapshot.windows import each_window

MAXIMUM_IMAGE_BYTES = 512 << 20


class Level:
    """What becomes of the contents of one window. This one keeps them; others change what they want to change.

    name: as --level has it. note: what the redacted snapshot says of itself.
    """

    name: Literal["paths", "noise", "shapes"] = "paths"

    note = "texts, source lines and debug sections are taken out; contents of memory are as captured"

    def __init__(self, reader: SnapshotReader, writer: SnapshotWriter) -> None:
        self.reader, self.writer = reader, writer

    def copied(self, contents: Contents) -> Contents:
        """The same contents, in the new file."""
        return copy_contents(contents, self.reader, self.writer)

    def range_(self, item: Range) -> Range:
        """An allocation with its contents before and after the window."""
        return replace(
            item,
            before=None if item.before is None else self.copied(item.before),
            after=None if item.after is None else self.copied(item.after),
        )

    def attachment(self, call: Call, side: str, key: str, value: Attachment) -> Attachment:
        """What an argument of a call pointed to. side: "inputs" or "outputs"."""
        return self.copied(value) if isinstance(value, Contents) else value

    def change(self, change: Change) -> Change | None:
        """What the host wrote; None to leave it out."""
        value = change.contents
        return replace(change, contents=self.copied(value)) if isinstance(value, Contents) else change

    def notes(self) -> Iterator[schema.Note]:
        """What the redacted window says of itself."""
        yield schema.Note(NoteCode.REDACTED.name, self.note)

    def summary(self, summary: schema.Summary) -> schema.Summary:
        """What `info` shows."""
        return summary


class Images:
    """Images as they are kept. stripped: what was overwritten in them, by digest. unread: why nothing was looked for,
    by digest. names: new ones of kernels. renamed: what the digest of an image with new names is, by digest."""

    def __init__(self, names: Names | None = None) -> None:
        self.names = names
        self.renamed: dict[str, str] = {}
        self.stripped: dict[str, list[str]] = {}
        self.unread: dict[str, str] = {}

    def image(self, image: schema.Image, level: Level) -> schema.Image:
        """Without texts for people, source lines and debug sections."""
        if image.contents.size_bytes > MAXIMUM_IMAGE_BYTES:
            self.unread[image.digest] = f"it is larger than {MAXIMUM_IMAGE_BYTES >> 20} MiB"
            return replace(image, contents=level.copied(image.contents))
        data = read_contents(level.reader, image.contents)
        try:
            kept, texts = stripped(data, lines=True)
        except ImageError as error:
            self.unread[image.digest] = error.what
            kept, texts = data, []
        if self.names is not None:
            kept = self.names.image(kept, image.digest)
            self.renamed[image.digest] = blake3(kept).hexdigest(length=DIGEST_BYTES)
        if kept == data:
            return replace(image, contents=level.copied(image.contents))
        digests = level.writer.write_chunks_from(kept, 0, len(kept), CHUNK_BYTES)
        self.stripped[image.digest] = texts
        return replace(
            image,
            contents=Contents(len(kept), b"".join(digests)),
            stripped=sorted({*image.stripped, *texts}),
            kept_digest=blake3(kept).hexdigest(length=DIGEST_BYTES),
        )


class _Rewriter:
    def __init__(self, level: Level, texts: Texts, images: Images) -> None:
        self._level, self._texts, self._images = level, texts, images
        self._names = images.names or Names()

    def objects(self, kind: str, value: Any) -> Iterator[tuple[str, Any]]:
        """The objects that take the place of another one."""
        if kind == BLOCK_KIND:
            if all(map(_only_launches, value.get("templates", ()))):
                others = [to_wire(self.call(from_wire(Call, item))) for item in value.get("others", ())]
                templates = [self._template(item) for item in value["templates"]]
                kept = {name: value[name] for name in block_fields() if name in value}
                yield kind, {**kept, "templates": templates, "others": others}
                return
            for inner in KINDS_IN_BLOCKS:
                for item in in_block(value, inner):
                    yield from self.objects(inner, item)
            return
        known = KINDS.get(kind)
        if known is None:
            raise FormatError(
                f"holds objects of kind {kind!r}, which this version does not know",
                where=self._level.reader.path, next="redact it with the version of replay that wrote it",
            )  # fmt: skip
        changed = self._changed(from_wire(known, value))
        if changed is not None:
            yield kind, to_wire(changed)

    def _changed(self, item: Any) -> Any:
        level, texts = self._level, self._texts
        if isinstance(item, schema.Environment):
            command = [_file_name(texts.path(word)) for word in item.command[:1]]
            return replace(
                item, command=command + [REMOVED] * (len(item.command) > 1),
                executable=_file_name(texts.path(item.executable)),
                devices=[replace(device, uuid="") for device in item.devices],
                details={key: texts.path(text) for key, text in item.details.items()},
            )  # fmt: skip
        if isinstance(item, (schema.Compilation, schema.Origins)):
            return None  # they are texts from end to end
        if isinstance(item, schema.Image):
            return self._images.image(item, level)
        if isinstance(item, Call):
            return self.call(item)
        if isinstance(item, Range):
            return level.range_(item)
        if isinstance(item, Change):
            return level.change(item)
        if isinstance(item, schema.TensorMap):
            return replace(item, call=self.call(item.call))
        if isinstance(item, schema.Note):
            return replace(item, text=self._names.sentence(texts.note(item.code, item.text)))
        if isinstance(item, schema.Kernel):
            return self._kernel(item)
        if isinstance(item, schema.Summary):
            words = self._names.sentence(texts.message(item.fault.words)) if item.fault else ""
            selection = REMOVED if self._images.names else texts.line(item.selection)
            counts = {**item.notes, NoteCode.REDACTED.name: item.notes.get(NoteCode.REDACTED.name, 0) + 1}
            return level.summary(
                replace(item, selection=selection, state_text=texts.message(item.state_text),
                        fault=item.fault and replace(item.fault, words=words), notes=counts, redacted=level.name,
                        kernels=[self._kernel(kernel) for kernel in item.kernels])
            )  # fmt: skip
        return item

    def _kernel(self, kernel: schema.Kernel) -> schema.Kernel:
        new = self._names.of.get(kernel.name)
        kernel = replace(kernel, origin=[])  # functions and files of a program
        return kernel if new is None else replace(kernel, name=new, demangled=new)

    def _template(self, template: dict[str, Any]) -> dict[str, Any]:
        """One of `_only_launches`, of which the words that vary have their places."""
        names = {item.name for item in fields(Call)}
        kept = {name: value for name, value in template.items() if name in names}
        return {**kept, "kernels": renamed_keys(template.get("kernels") or {}, self._names)}

    def call(self, call: Call) -> Call:
        """A call with other texts and contents."""
        return replace(
            call,
            kernels=renamed_keys(call.kernels, self._names),
            inputs={key: self._attachment(call, "inputs", key, value) for key, value in call.inputs.items()},
            outputs={
                key: self._attachment(call, "outputs", key, value) for key, value in call.outputs.items()
            },
        )

    def _attachment(self, call: Call, side: str, key: str, value: Attachment) -> Attachment:
        if isinstance(value, bytes) and (role_of(call, key) == Role.STRING):
            if names_a_file(call.function, key):
                return os.path.basename(self._texts.argument(call.function, key, value))
            if new := self._names.of.get(value.rstrip(b"\0").decode("latin-1")):
                return new.encode() + value[len(value.rstrip(b"\0")) :]
            # A name of a kernel or a variable; the name of an image for the linker may be the path of its source.
            return os.fsencode(private(os.fsdecode(value))) if b"/" in value else value
        return self._level.attachment(call, side, key, value)


def _file_name(path: str) -> str:
    """Without its folders."""
    return path.rpartition("/")[2]


def _only_launches(template: Any) -> bool:
    """Whether the calls of a template hold no more than parameters and handles: they stay as they are."""
    inputs, outputs = template.get("inputs") or {}, template.get("outputs")
    return not outputs and set(inputs) <= {PARAMETERS, *CONSTANT_INPUTS}


def role_of(call: Call, key: str) -> Role | None:
    """Of the parameter whose pointee an attachment is; None for parts that a function's encoder names."""
    function = by_symbol().get(call.function)
    return next((item.role for item in function.parameters if item.name == key), None) if function else None


def rewrite(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    level: Callable[[SnapshotReader, SnapshotWriter], Level],
    names: Names | None = None,
) -> Images:
    """Write the snapshot `path` anew into `output`, each window by a level of its own. names: new ones of kernels.

    Raises FormatError for what this version does not know, DamagedError, FileError.
    """
    texts, images = Texts(keep=False), Images(names)
    with SnapshotReader(path) as reader:
        reader.require_whole()
        with SnapshotWriter(output, several_windows=reader.window_count > 0) as writer:
            for number, window in enumerate(each_window(reader)):
                made = level(reader, writer)
                rewriter = _Rewriter(made, texts, images)
                for kind, value in reader.chosen_objects():
                    if kind in CHUNK_KINDS or (kind in ("header", "environment") and number):
                        continue
                    if kind == "window":
                        writer.begin_window(to_wire(window))
                        continue
                    if kind == "summary":
                        for note in made.notes():
                            writer.write("note", to_wire(note))
                    for changed in rewriter.objects(kind, value):
                        writer.write(*changed)
    return images
