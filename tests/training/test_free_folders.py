"""A run of which nothing came gives way to the next, and nothing else is removed."""

import pytest

import tepui
from tepui.tracking import remember
from tepui.training.run_folder import TRACKING, RunFolder
from training.cases import Plain, assert_same_runs, files, fitted, images


class FailsAtFirst(tepui.Callback):
    """Fails before the first step, as a tracker without a connection does."""

    def on_start(self, config):
        raise ConnectionError("nobody answers")


class Torn(Plain):
    """Fails to give one of its samples."""

    def __getitem__(self, index):
        if index == 20:
            raise OSError("sample 20 cannot be read")
        return super().__getitem__(index)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize(
    ("error", "how"),
    [
        (ConnectionError, {"callbacks": [FailsAtFirst()]}),
        (OSError, {"data": Torn(images())}),
    ],
    ids=["tracker", "data"],
)
def test_a_run_that_failed_before_anything_came_of_it_gives_way(
    tmp_path, error, how, resume
):
    given = {"data": Plain(images()), **how}
    with pytest.raises(error):
        fitted(given.pop("data"), out=tmp_path / "run", resume=resume, **given)
    again = fitted(images(), out=tmp_path / "run", epochs=1, resume=resume)
    assert_same_runs(again, fitted(images(), epochs=1))


def test_an_error_leaves_alone_what_it_did_not_make(tmp_path):
    fitted(images(), out=tmp_path / "run", stop_after=1)
    before = files(tmp_path / "run")
    with pytest.raises(ConnectionError):
        fitted(images(), out=tmp_path / "run", resume=True, callbacks=[FailsAtFirst()])
    after = files(tmp_path / "run")
    names = {file for file in before if ".lease" not in file.parts}
    assert {file: after[file] for file in names} == {n: before[n] for n in names}

    class Noted(FailsAtFirst):
        def on_start(self, config):
            (tmp_path / "noted" / "note.txt").write_text("mine")
            super().on_start(config)

    with pytest.raises(ConnectionError):
        fitted(images(), out=tmp_path / "noted", callbacks=[Noted()])
    assert (tmp_path / "noted" / "note.txt").read_text() == "mine"
    fitted(images(), out=tmp_path / "noted", resume=True)


def test_a_run_that_was_killed_at_first_gives_way_to_another(tmp_path):
    class Killed(BaseException):
        pass

    class KilledAtFirst(tepui.Callback):
        def on_start(self, config):
            raise Killed  # which no handler of errors catches

    def killed(out):
        with pytest.raises(Killed):
            fitted(images(), out=out, callbacks=[KilledAtFirst()])
        assert RunFolder(out).started

    killed(tmp_path / "bare")
    fitted(images(), out=tmp_path / "bare", epochs=1)
    assert RunFolder(tmp_path / "bare").recorded()["config"]["epochs"] == 1
    killed(tmp_path / "used")
    (tmp_path / "used" / "note.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds a run"):
        fitted(images(), out=tmp_path / "used", epochs=1)


def test_a_run_that_fails_at_first_is_forgotten_by_its_trackers(tmp_path):
    class Tracked(FailsAtFirst):
        def on_start(self, config):
            remember(config, "wandb", "id of a run there")
            super().on_start(config)

    with pytest.raises(ConnectionError):
        fitted(images(), out=tmp_path, callbacks=[Tracked()])
    fitted(images(), out=tmp_path)
    assert not (tmp_path / TRACKING).exists()


def test_a_folder_that_was_taken_over_is_left_alone(tmp_path):
    class TakenOver(FailsAtFirst):
        def on_start(self, config):
            (tmp_path / ".lease" / "2").write_text("of another process")
            super().on_start(config)

    with pytest.raises(ConnectionError):
        fitted(images(), out=tmp_path, callbacks=[TakenOver()])
    assert RunFolder(tmp_path).started
