"""How a compiler made a module image."""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass
from replay.snapshot.schema.memory import Contents

# From the front end on; "source" is what it made of the program, before any pass
LEVELS = ("source", "ttir", "ttgir", "llir", "ptx", "cubin")
MAXIMUM_TEXT_BYTES = 16 << 20  # of one level


@dataclass(frozen=True)
class Compilation:
    """What a compiler's own cache has of a module image.

    image: its digest, as `Image.digest`. compiler: "Triton 3.9.0". kernel: name in the image. place: where its source
    begins, file and line, "" where that is not known. signature: parameters with the types that the compiler gave
    them, "x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32}"; what became a constant is none. options: num_warps,
    num_stages and the like, as texts. levels: what each of LEVELS said, as far as the cache has it. left_out: levels
    that are larger than a snapshot keeps.
    """

    image: str
    compiler: str
    kernel: str
    place: str = ""
    signature: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    levels: dict[str, Contents] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
