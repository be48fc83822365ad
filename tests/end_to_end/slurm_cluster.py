"""A Slurm cluster on this machine: one slurmctld and two slurmd, each in a name space with a host name of its own.

Of the distribution's packages, installed, or unpacked into the folder that REPLAY_TEST_SLURM names (`dpkg -x`).
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

NODES = ("n1", "n2")
# And those after it; another worker of pytest has others.
_PORTS = 26817 + 10 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=2
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Why none can be started here, "" when it can."""
    if os.geteuid():
        return "host names of nodes need root"
    missing = [name for name in ("slurmctld", "slurmd", "slurmstepd", "sbatch") if _find(name) is None]
    return f"{missing[0]} is not here: install slurmctld, slurmd and slurm-client" if missing else ""


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Variables of the environment with which commands use it."""
    root = os.environ.get("REPLAY_TEST_SLURM", "")
    plugins = next(path.parent for base in (root, "/") for path in Path(base or "/nonexistent").glob(
        "usr/lib/*/slurm*/auth_none.so"))  # fmt: skip
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={_PORTS + number} CPUs=1"
        for number, name in enumerate(NODES, 1)
    )
    (folder / "state").mkdir()
    (folder / "bin").mkdir()
    for name in ("srun", "sbatch", "squeue", "scancel", "sinfo"):  # that many packages call otherwise
        (folder / "bin" / name).symlink_to(str(_find(name)))
    configuration = folder / "slurm.conf"
    text = _CONFIGURATION.format(
        host=platform.node(), port=_PORTS, plugins=plugins, folder=folder, nodes=nodes
    )
    configuration.write_text(text)
    environment = {
        **os.environ, "SLURM_CONF": str(configuration), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }  # fmt: skip
    if root:  # installed ones find theirs, and Python must not find others than its own
        environment["LD_LIBRARY_PATH"] = f"{plugins}:{plugins.parent}"
    commands = [[str(_find("slurmctld")), "-D"]]
    for name in NODES:
        command = f"hostname {name}; exec {_find('slurmd')} -D -N {name} -d {_find('slurmstepd')}"
        commands.append(["unshare", "--uts", "sh", "-c", command])
    with contextlib.ExitStack() as running:
        for command in commands:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )  # fmt: skip
            running.callback(process.wait)
            running.callback(process.terminate)
        deadline = time.monotonic() + 60
        while (idle := _idle(environment)) < len(NODES) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert idle == len(NODES), (folder / "controller.log").read_text()
        yield environment


def _idle(environment: dict[str, str]) -> int:
    command = ["sinfo", "--noheader", "--format", "%D %t"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return sum(int(line.split()[0]) for line in done.stdout.splitlines() if line.split()[1:] == ["idle"])


def _find(name: str) -> Path | None:
    root = os.environ.get("REPLAY_TEST_SLURM", "")
    for folder in (f"{root}/usr/bin", f"{root}/usr/sbin") if root else ():
        for spelling in (name, f"{name}-wlm"):
            if Path(folder, spelling).exists():
                return Path(folder, spelling)
    found = shutil.which(name) or shutil.which(f"{name}-wlm")
    return Path(found) if found else None
