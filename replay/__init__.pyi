from replay import errors as errors
from replay.library.capturing import capture as capture
from replay.library.capturing import captured_once as captured_once
from replay.library.capturing import launch_under_shim as launch_under_shim
from replay.library.checking import check_corpus, history_of
from replay.library.evaluating import Evaluation as Evaluation
from replay.library.launches import Launch as Launch
from replay.library.launches import Parameter as Parameter
from replay.library.memory import Buffer as Buffer
from replay.library.result import Result as Result
from replay.library.snapshot import Snapshot as Snapshot
from replay.library.snapshot import open_snapshot
from replay.library.verdict import Verdict as Verdict
from replay.library.verdict import compare_paths

check = check_corpus
compare = compare_paths
history = history_of
open = open_snapshot

__version__: str
__all__: list[str]
