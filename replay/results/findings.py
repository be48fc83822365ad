"""What `replay check-memory --json` prints. Fields are only added."""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass
from replay.results.run.verification import Verification


@dataclass(frozen=True)
class FindingSide:
    """Who did something, and where in the code. block, thread: as CUDA counts them. instruction: the line of PTX.
    file, line: of the source, where the PTX names them. text: number of the PTX text in its module; ptx_line: in it."""

    instruction: str
    file: str
    line: int
    text: int
    ptx_line: int
    block: list[int]
    thread: list[int]


@dataclass(frozen=True)
class MemoryFinding:
    """Equal findings, at one place or pair of places in the code. check: init, race, sync, numbers or
    cancellation. kind, of init: undefined_branch, undefined_address or undefined_output, for what depends on bits that
    nothing wrote; of a race: write_after_write, read_after_write or write_after_read, in the order of this replay;
    of sync: divergent_barrier, outside_its_mask, masks_differ or registers_differ; of numbers: makes_nan or
    makes_infinity; of cancellation: loses_digits; of compute-sanitizer: invalid_read, invalid_write,
    invalid_atomic, uninitialised_read, race, barrier_error. launches: in how many launches of the kernel;
    first_launch: the first of them, of all that were checked, from 1; count: by how many threads, each time.
    same_value: both wrote the same, which is no fault by itself. one_warp: both threads are of one warp, so that a
    `__syncwarp` is missing. asynchronous: one of the two is an asynchronous copy or wgmma, which goes on after its
    instruction. value, new_value: of a race, the first 8 bytes that were in memory when the second side came, and
    those that it writes, as numbers; "" where not known. writer: of a race whose first side reads, who wrote what
    it read, null where nobody in the launch did. earlier_kernel, earlier_launch: of a race between two launches,
    the kernel of the first side and its launch, from 1; "" and 0 else. A copy or fill of the host is such a side, too:
    its name is in place of the kernel's and is its instruction, earlier_launch is 0, and it has no line of PTX, block
    or thread. writer_kernel: of such a race, the kernel or call of the writer. space: shared, local or global, "" where
    no memory is touched. variable: that holds the address, "" for none; range: id of the memory in global memory that
    does, as `replay ls SNAP memory` has it, 0 where it is not known; allocation: where that began in the replay;
    offset: in it; bytes: that the second side touches, of init the first. first, second: an example; of init what
    read the bits, and what they decide; second is null for sync, numbers and a register that nothing has written.
    operands, result: of the example, of numbers, as text; no operands for a product of matrices."""

    check: str
    kind: str
    kernel: str
    space: str
    variable: str
    offset: int
    bytes: int
    same_value: bool
    one_warp: bool
    count: int
    launches: int
    first: FindingSide
    first_launch: int = 1
    operands: list[str] = field(default_factory=list)
    result: str = ""
    second: FindingSide | None = None
    range: int = 0
    allocation: int = 0
    asynchronous: bool = False
    value: str = ""
    new_value: str = ""
    writer: FindingSide | None = None
    earlier_kernel: str = ""
    earlier_launch: int = 0
    writer_kernel: str = ""

    @property
    def sides(self) -> list[FindingSide]:
        """Those there are, in the order of this replay."""
        return [self.first] if self.second is None else [self.first, self.second]

    @property
    def is_between_blocks(self) -> bool:
        """Whether threads of two blocks take part."""
        return self.second is not None and (
            self.first.block != self.second.block and not self.is_between_launches
        )

    @property
    def is_between_launches(self) -> bool:
        """Whether the first side is another launch, or one of the two a call of the host."""
        return self.earlier_kernel != ""

    @property
    def is_with_host(self) -> bool:
        """Whether one of the two sides is a copy or fill of the host."""
        return self.is_between_launches and any(side.ptx_line == 0 for side in self.sides)

    @property
    def is_fault(self) -> bool:
        """Whether it fails the command."""
        return not self.same_value


@dataclass(frozen=True)
class FailedLaunch:
    """A launch that ended in an error, which the rest of the window then never came to. kernel: its name. status:
    illegal_address, misaligned_address, illegal_instruction, assertion, deadlock, timeout, out_of_resources or
    stack_overflow. message: what the driver says of it, with the place in the code, block and thread."""

    kernel: str
    status: str
    message: str


@dataclass(frozen=True)
class UncheckedKernel:
    """A kernel that a check left out. check: its name. why: what it cannot follow. launches: how many of the kernel."""

    kernel: str
    check: str
    why: str
    launches: int


@dataclass(frozen=True)
class MemoryCheck:
    """What was looked for in a replay on the CPU driver, and found. checks: their names. launches: how many were
    checked. kernels: launches of each kernel. findings: faults first. failed: launches
    that ended in an error. unchecked: kernels that a check left out.
    verification: of the outputs of the same replay, null when it ended early. tool: what looked, where it was not the
    CPU driver; then launches are not counted, and sides have no line of PTX."""

    snapshot: str
    checks: list[str]
    launches: int
    kernels: dict[str, int]
    findings: list[MemoryFinding] = field(default_factory=list)
    failed: list[FailedLaunch] = field(default_factory=list)
    unchecked: list[UncheckedKernel] = field(default_factory=list)
    verification: Verification | None = None
    tool: str = ""

    @property
    def has_faults(self) -> bool:
        """Whether anything was found that fails the command."""
        return bool(self.failed) or any(item.is_fault for item in self.findings)
