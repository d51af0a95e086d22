"""What the pages on several processes and machines say can be done."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from processes import LAUNCHER, environment_here, free_port
from tepui.cli.main import main, read
from tepui.cli.parsing import normalized
from tepui.core.storage import read_tensors
from tepui.studies.executors.ray import PATIENCE
from training.cases import assert_same_bits, one_thread

DOCS = Path(__file__).parents[1] / "docs"
TUTORIAL = (DOCS / "many_machines.md").read_text()
TEXT = (DOCS / "ranks.md").read_text() + (DOCS / "clusters.md").read_text()


def commands_in(text):
    return [
        line.replace("\\\n", "")
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
        for line in re.split(r"\n(?=tepui)", block.strip())
        if not language and re.match("tepui (reproduce|sweep|compare) ", line)
    ]


COMMANDS = commands_in(TEXT)
LIBRARIES = {"ray": "ray", "slurm": "submitit"}
single = pytest.fixture(one_thread)


def run(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    main(shlex.split(command)[1:])


def needed(command):
    found = re.search(r"--executor (\w+)", command)
    return LIBRARIES.get(found[1]) if found else None


HERE = [each for each in COMMANDS if "smoke" in each or "runs/two" in each]
QUICK = [each for each in HERE if "--dry-run" in each]


def test_commands_of_the_tutorial_are_those_of_the_pages():
    found = commands_in(TUTORIAL)
    assert len(found) == 3
    assert {*found} <= {*COMMANDS}
    ranks = re.findall(r"^torchrun --nproc.*$", TUTORIAL, re.M)
    assert len(ranks) == 2
    assert all(line in TEXT for line in ranks)


def test_the_pages_have_commands_for_every_executor():
    assert {needed(each) for each in HERE} == {None, "ray", "submitit"}
    assert len(QUICK) == 1


@pytest.mark.parametrize("command", QUICK)
def test_quick_commands_of_the_page(command, tmp_path, monkeypatch, capsys):
    run(command, tmp_path, monkeypatch)
    assert "hours on an" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.slow
@pytest.mark.parametrize("command", [each for each in HERE if each not in QUICK])
def test_commands_of_the_page(command, tmp_path, monkeypatch):
    if needed(command):
        pytest.importorskip(needed(command))
    run(command, tmp_path, monkeypatch)
    assert [*tmp_path.rglob("evaluation.json")]


RANKS = re.findall(r"^torchrun (--nproc-per-node=2 -m .*)$", TEXT, re.M)


@pytest.mark.slow
def test_commands_of_the_page_for_two_ranks(tmp_path):
    """In their order, since one trains what another tests."""
    assert [words.split()[3] for words in RANKS] == ["train", "evaluate", "train"]
    for words in RANKS:
        done = subprocess.run(
            [*LAUNCHER, *shlex.split(words)],
            cwd=tmp_path,
            env=environment_here(),
            capture_output=True,
            check=False,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "two" / "evaluation.json").is_file()
    assert (tmp_path / "runs" / "shared" / "outcome.json").is_file()


(TWO_NODES,) = re.findall(r"^torchrun (--nnodes=2 (?:.*\\\n)*.*)$", TEXT, re.M)
BY_NUMBER = ["--node-rank={node}", "--master-addr=127.0.0.1", "--master-port={port}"]
BRIEFLY = ["--model", "MLP", "--model.hidden", "[8]", "--epochs", "2"]


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
    main([*trained, "--out", str(tmp_path / "one"), "--quiet"])
    runs = [tmp_path / "runs" / "eight", tmp_path / "one"]
    files = [run / "ensemble.safetensors" for run in runs]
    assert_same_bits(*(read_tensors(file, "ensemble")[0] for file in files))


@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in HERE])
def test_commands_for_a_cluster_are_understood(command):
    _, values = read(normalized(shlex.split(command)[1:]))
    assert values["executor"] in LIBRARIES


def test_the_file_for_kubernetes_is_the_one_of_the_page_and_is_a_job():
    """What must agree within; its schema: tests/ecosystem/test_kubernetes.py."""
    file = DOCS / "examples" / "kubernetes.yaml"
    assert f"```yaml\n{file.read_text()}```" in TEXT
    job = yaml.safe_load(file.read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", job["metadata"]["name"])
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["parallelism"] <= spec["completions"]
    # A policy for failures is only allowed for pods that are not restarted in place.
    assert pod["restartPolicy"] == "Never"
    assert all(rule["action"] == "Ignore" for rule in spec["podFailurePolicy"]["rules"])
    (container,) = pod["containers"]
    assert {"name", "image"} <= container.keys()
    assert all(isinstance(n, str) for n in container["resources"]["limits"].values())
    claimed = {volume["name"] for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == claimed
    words = [*container["command"], *container["args"]]
    assert words[0] == "tepui"
    _, values = read(normalized(words[1:]))
    (folder,) = mounts.values()
    assert all(str(values[name]).startswith(folder) for name in ("store", "out"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray Tune's own
def test_the_search_of_the_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray.tune", exc_type=ImportError)
    (code,) = re.findall(r"```py\n(from ray import tune.*?)```", TEXT, re.S)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray Tune writes
    for name, value in PATIENCE.items():
        monkeypatch.setenv(name, value)
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        exec(compile(code, "example", "exec"), {"__name__": "example"})
    finally:
        ray.shutdown()
    assert "rho" in capsys.readouterr().out.splitlines()[-1]
