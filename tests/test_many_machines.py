"""What the pages on several processes and machines say can be done."""

import re
import subprocess
import sys

import pytest
import yaml

from pages import ROOT, commands
from processes import LAUNCHER, environment_here, free_port
from tepui.cli.main import build, main
from tepui.core.storage import read_tensors
from tepui.studies.executors.ray import PATIENCE
from training.cases import assert_same_bits, one_thread

DOCS = ROOT / "docs"
TEXT = (DOCS / "many_machines.md").read_text()
COMMANDS = commands(DOCS / "many_machines.md")

single = pytest.fixture(one_thread)


def test_the_page_has_commands_for_every_executor():
    found = [re.search(r"--executor '?(\w+)", each) for each in COMMANDS]
    assert {each and each[1] for each in found} == {None, "Ray", "Slurm"}


(TWO_NODES,) = re.findall(r"^torchrun (--nnodes=2 (?:.*\\\n)*.*)$", TEXT, re.M)
BY_NUMBER = ["--node-rank={node}", "--master-addr=127.0.0.1", "--master-port={port}"]
BRIEFLY = ["--model", "MLP(hidden=[8])", "--epochs", "2"]


def on_two_nodes(words, folder):
    """Start a launcher for each node; return how they end."""
    port = free_port()
    nodes = [
        subprocess.Popen(
            [*LAUNCHER[:-1], *(word.format(node=node, port=port) for word in words)],
            cwd=folder,
            env=environment_here(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in range(2)
    ]
    try:
        said = [node.communicate(timeout=500)[1] for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(said)


@pytest.mark.slow
@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("numbered", [False, True], ids=["named host", "numbers"])
def test_the_command_of_the_page_for_two_machines(tmp_path, numbered):
    """Two launchers on one machine, one process each: the bits of one process."""
    given = TWO_NODES.replace("\\\n", "").replace("/shared/", "")
    launch, command = given.split("-m tepui ")
    launch = launch.replace("--nproc-per-node=4", "--nproc-per-node=1")
    meeting = [word for word in launch.split() if "rdzv" in word]
    assert meeting == ["--rdzv-backend=c10d", "--rdzv-endpoint=HOST:29400"]
    instead = [word.replace("HOST:29400", "127.0.0.1:{port}") for word in meeting]
    words = [word for word in launch.split() if word not in meeting]
    words += BY_NUMBER if numbered else [*instead, "--local-addr=127.0.0.1"]
    trained = [*command.split(), *BRIEFLY]
    on_two_nodes([*words, "-m", "tepui", *trained], tmp_path)
    alone = [
        str(tmp_path / "one") if word == "runs/eight" else word for word in trained
    ]
    main([*alone, "--set", "progress=none"])
    runs = [tmp_path / "runs" / "eight", tmp_path / "one"]
    files = [run / "ensemble.safetensors" for run in runs]
    assert_same_bits(*(read_tensors(file, "ensemble")[0] for file in files))


def test_the_file_for_kubernetes_is_the_one_of_the_page_and_is_a_job():
    """Its schema: tests/ecosystem/test_kubernetes.py."""
    file = DOCS / "examples" / "kubernetes.yaml"
    assert '```yaml\n--8<-- "examples/kubernetes.yaml"\n```' in TEXT
    job = yaml.safe_load(file.read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (mounted,) = container["volumeMounts"]
    words = [*container["command"], *container["args"]]
    assert words[0] == "tepui"
    _, bound, _ = build().parse_args(words[1:], exit_on_error=False, print_error=False)
    values = bound.arguments
    folders = [str(values[name]) for name in ("store", "out")]
    assert all(folder.startswith(mounted["mountPath"]) for folder in folders)


@pytest.mark.slow
def test_the_search_of_the_page(tmp_path):
    """In a process of its own: one that has used Ray keeps the token of its home."""
    pytest.importorskip("ray.tune", exc_type=ImportError)
    (code,) = re.findall(r"```py\n(from ray import tune.*?)```", TEXT, re.S)
    connected = (
        'import ray\n\nray.init(address="local", num_cpus=2, '
        "include_dashboard=False, log_to_driver=False)\n"
    )
    home = {"HOME": str(tmp_path)}  # where Ray Tune writes
    done = subprocess.run(
        [sys.executable, "-c", connected + code],
        cwd=tmp_path,
        env={**environment_here(), **PATIENCE, **home},
        capture_output=True,
        check=False,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "rho" in done.stdout.splitlines()[-1]
