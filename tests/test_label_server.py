"""The labeling page's server: what it serves, what it writes, and whom it refuses."""

import io
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ict.data.user.answers import read_answers
from tests.label_server import PATIENCE, Server, color_photos, label_server
from tests.test_cli import ict

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos, one of them with a name that is markup and one that is no photo."""
    folder = tmp_path_factory.mktemp("labeling")
    color_photos(folder / "photos", 60)
    (folder / "photos/000.png").rename(folder / f"photos/{SCRIPT.replace('/', '')}.png")
    (folder / "photos/001.png").write_bytes(b"no photo")
    (folder / "secret.png").write_bytes((folder / "photos/002.png").read_bytes())
    return folder


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with label_server("photos", "--classes", "red,green", "--backbone", "none", folder=place) as started:
        yield started


def test_the_address_lets_in_and_its_token_disappears_from_it(server: Server) -> None:
    status, headers, _ = server.request("GET", f"/?token={server.token}", cookie=None)
    assert status == 303 and headers["location"] == "/"
    cookie = headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    status, headers, content = server.request("GET", "/", cookie=headers["set-cookie"].partition(";")[0])
    assert status == 200 and b"<!doctype html>" in content
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"] and headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path", "changed"),
    [
        ("GET", "/state", {"cookie": None}),
        ("GET", "/state", {"cookie": "ict-label-1=x"}),
        ("GET", "/", {"cookie": None}),
        ("GET", "/?token=", {"cookie": None}),
        ("GET", "/?token=wrong", {"cookie": None}),
        ("GET", "/page.js", {"cookie": None}),
        ("GET", "/picture/1/large", {"cookie": None}),
        ("GET", "/state", {"host": "evil.example"}),
        ("GET", "/state", {"host": "127.0.0.1"}),
        ("GET", "/state", {"host": None}),
        ("GET", "/state", {"origin": "http://evil.example"}),
        ("GET", "/state", {"origin": "null"}),
        ("POST", "/undo", {"origin": "http://localhost:1"}),
        ("POST", "/undo", {"origin": None}),
        ("POST", "/undo", {"cookie": None}),
        ("POST", "/undo", {"host": "evil.example", "origin": "http://evil.example"}),
    ],
)
def test_nobody_else_gets_in(method: str, path: str, changed: dict[str, str | None], server: Server) -> None:
    status, headers, content = server.request(method, path, b"{}" if method == "POST" else None, **changed)
    assert status in (400, 403) and len(content) < 200 and "set-cookie" not in headers
    assert server.token.encode() not in content


def test_a_form_of_another_page_is_refused_by_its_kind(server: Server) -> None:
    assert server.request("POST", "/undo", b"{}", content_type="text/plain")[0] == 415
    assert server.request("POST", "/undo", b"{", content_type="application/json")[0] == 400
    assert server.request("PUT", "/undo", b"{}")[0] in (403, 405)


def test_the_server_listens_on_loopback_alone(server: Server) -> None:
    own = socket.gethostbyname(socket.gethostname())
    if own.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError):
        socket.create_connection((own, server.port), timeout=2)


@pytest.mark.parametrize(
    "path",
    [
        "/picture/../secret.png/large",
        "/picture/..%2f..%2fsecret.png/large",
        "/picture/%2e%2e/large",
        "/picture/-1/large",
        "/picture/60/large",
        "/picture/1/../../secret.png",
        "/picture/1/huge",
        "/picture/1e0/large",
        "/picture/%D9%A1/large",
        "/picture/99999999999999999999/large",
        "/picture//etc/passwd",
        "/example/002.png",
        "/photos/",
        "/page/",
        "/secret.png",
        "/../secret.png",
        "//etc/passwd",
        "/favicon.ico",
        "/openapi.json",
    ],
)
def test_only_examples_by_number_are_served_and_nothing_is_listed(path: str, server: Server) -> None:
    status, _, content = server.request("GET", path)
    assert status == 404 and b"PNG" not in content and b"root:" not in content


def test_pictures_are_encoded_anew_and_one_that_is_none_is_a_sentence(server: Server, place: Path) -> None:
    names = sorted(path.name for path in (place / "photos").iterdir())
    status, headers, content = server.request("GET", f"/picture/{names.index('002.png')}/large")
    assert status == 200 and headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(content)) as got, Image.open(place / "photos/002.png") as true:
        assert np.array_equal(np.asarray(got), np.asarray(true))
    status, headers, content = server.request("GET", f"/picture/{names.index('001.png')}/large")
    assert status == 404 and b"001.png is not a photo of a known kind" in content
    assert headers["content-type"].startswith("text/plain")


def test_names_reach_the_page_as_data_alone(server: Server) -> None:
    state = server.post("/class", name=SCRIPT)
    assert SCRIPT in [one["name"] for one in state["classes"]]
    _, headers, content = server.request("GET", "/state")
    assert headers["content-type"] == "application/json" and headers["x-content-type-options"] == "nosniff"
    assert json.loads(content)["classes"] == state["classes"]
    assert SCRIPT.encode() not in server.request("GET", "/")[2]


@pytest.mark.parametrize("says_how_long", [True, False])
def test_a_post_of_100_mb_is_refused_and_not_kept(says_how_long: bool, server: Server) -> None:
    head = (
        f"POST /undo HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\norigin: http://127.0.0.1:{server.port}\r\n"
        f"cookie: ict-label-{server.port}={server.token}\r\ncontent-type: application/json\r\n"
    )
    head += "content-length: 100000000\r\n\r\n" if says_how_long else "transfer-encoding: chunked\r\n\r\n"
    part = b" " * 100_000 if says_how_long else b"186A0\r\n" + b" " * 100_000 + b"\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as link:
        link.sendall(head.encode())
        link.settimeout(30)
        try:
            for _ in range(1000):
                link.sendall(part)
                sent += len(part)
        except OSError:
            pass
        try:
            answer = link.recv(100)
        except OSError:
            answer = b""
    assert answer.startswith(b"HTTP/1.1 413") or sent < 50_000_000
    memory = Path(f"/proc/{server.process.pid}/status").read_text()
    peak = int(memory.partition("VmHWM:")[2].split()[0])
    assert peak < 400_000, "KB: the body was kept"
    assert server.get("/state")["items"] == "photos"


def test_requests_that_end_in_the_middle_do_no_harm(tmp_path: Path) -> None:
    color_photos(tmp_path / "photos", 12)
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        head = (
            f"POST /answer HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\norigin: http://127.0.0.1:{server.port}\r\n"
            f"cookie: ict-label-{server.port}={server.token}\r\ncontent-type: application/json\r\n"
            'content-length: 99\r\n\r\n{"rows": [0], "label": "red"'
        ).encode()
        links = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        for i, link in enumerate(links):
            link.sendall(head[: len(head) * (i + 1) // len(links)])
        row = server.get("/state")["questions"][0]["row"]
        assert server.post("/answer", rows=[row], label="blue")["answered"] == 1
        for link in links:
            link.close()
        assert server.get("/state")["answered"] == 1
        assert server.stop().startswith("1 label in labels.csv") and server.error == ""


def test_answers_go_to_the_file_and_the_model_learns_from_them(place: Path, tmp_path: Path) -> None:
    truth = color_photos(tmp_path / "photos", 90)
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        server.wait_for(lambda state: state["learning"]["stage"] == "waiting")
        seen = []
        for _ in range(40):
            question = server.get("/state")["questions"][0]
            state = server.post("/answer", rows=[question["row"]], label=truth[question["name"]])
            lines = read_answers(tmp_path / "labels.csv")[0]
            assert lines[-1].example == question["name"] and lines[-1].kind == question["kind"]
            seen.append(question["kind"])
        assert 4 <= seen.count("random") <= 10 and state["answered"] == 40
        state = server.wait_for(lambda state: state["estimate"] and state["estimate"]["accuracy"] > 0.9)
        assert state["group"] and len({truth[one["name"]] for one in state["group"]}) == 1
        assert state["groupGuess"]["label"] == truth[state["group"][0]["name"]]
        rows = [one["row"] for one in state["group"]]
        assert server.post("/pass", rows=rows)["group"] != state["group"]
        before = server.post("/undo")
        assert before["questions"][0]["row"] == question["row"] and before["answered"] == 39
        refused = server.post("/answer", rows=[question["row"]], label=" ")
        assert "no usable name" in refused["problem"] and refused["state"]["answered"] == 39
        assert server.post("/answer", rows=[10**9], label="red")["problem"]
        assert server.post("/answer", rows="all", label="red")["problem"]
        said = server.stop()
    assert said == "39 labels in labels.csv; now run: ict fit photos --labels labels.csv --backbone none\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv", "photos"]


def learners(server: Server) -> list[int]:
    """The processes of a server that learn."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def is_running(process: int) -> bool:
    status = Path(f"/proc/{process}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def wait_until_gone(process: int) -> None:
    end = time.monotonic() + PATIENCE
    while is_running(process) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_running(process)


def test_killed_and_started_again_it_has_every_confirmed_answer(tmp_path: Path) -> None:
    truth, file = color_photos(tmp_path / "photos", 60), tmp_path / "labels.csv"
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        said = {}
        for _ in range(6):
            question = server.get("/state")["questions"][0]
            server.post("/answer", rows=[question["row"]], label=truth[question["name"]])
            said[question["name"]] = truth[question["name"]]
        (learner,) = learners(server)
        server.process.kill()
        server.process.wait(PATIENCE)
        wait_until_gone(learner)
    assert {one.example: one.label for one in read_answers(file)[0]} == said
    with file.open("ab") as opened:
        opened.write(b"001.png,red,2026")  # as if it had been killed in the middle of a line
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        state = server.get("/state")
        assert {one["name"]: one["label"] for one in state["past"]} == said
        assert server.post("/undo")["answered"] == 5
        assert "5 labels in" in server.stop(signal.SIGHUP)  # the terminal was closed
    assert [one.kind for one in read_answers(file)[0]] == ["random"] * 6 + ["undo"] and file.read_bytes()[-1:] == b"\n"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process are Linux's")
def test_a_full_disk_is_a_sentence_and_answering_goes_on_when_there_is_room(tmp_path: Path) -> None:
    color_photos(tmp_path / "photos", 30)
    file = tmp_path / "labels.csv"
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        row = server.get("/state")["questions"][0]["row"]
        before = file.read_bytes()
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (len(before) + 9, resource.RLIM_INFINITY))
        for path, said in (("/answer", {"rows": [row], "label": "red"}), ("/skip", {"rows": [row]})):
            refused = server.post(path, **said)
            assert "labels.csv cannot be written (File too large): make room there" in refused["problem"]
            assert refused["state"]["questions"][0]["row"] == row and refused["state"]["answered"] == 0
            assert file.read_bytes() == before
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert server.post("/answer", rows=[row], label="red")["answered"] == 1
    assert [(one.label, one.kind) for one in read_answers(file)[0]] == [("red", "random")]


def test_two_tabs_that_answer_the_same_question_correct_each_other(tmp_path: Path) -> None:
    color_photos(tmp_path / "photos", 30)
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        first = server.get("/state")
        row = first["questions"][0]["row"]
        one = server.post("/answer", rows=[row], label="red")
        two = server.post("/answer", rows=[row], label="blue")
        assert one["version"] < two["version"] and two["answered"] == 1
        assert [(past["row"], past["label"]) for past in two["past"]] == [(row, "blue")]
        assert server.request("GET", f"/state?seen={two['version']}")[0] == 204
        assert server.get(f"/state?seen={one['version']}")["version"] == two["version"]
        assert server.post("/undo")["questions"][0]["row"] == row
    assert [one.label for one in read_answers(tmp_path / "labels.csv")[0]] == ["red", "blue", ""]


def test_answers_are_saved_when_the_process_that_learns_was_killed(tmp_path: Path) -> None:
    color_photos(tmp_path / "photos", 30)
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        (learner,) = learners(server)
        os.kill(learner, signal.SIGKILL)
        state = server.wait_for(lambda state: state["learning"]["stage"] == "failed")
        assert "was killed, perhaps for lack of memory; answers are still saved" in state["problem"]
        assert server.post("/answer", rows=[state["questions"][0]["row"]], label="red")["answered"] == 1
        server.stop()


def test_a_row_that_changed_ends_the_page_with_a_sentence(tmp_path: Path) -> None:
    rows = "\n".join(["a,b,label", *(f"{i},{i % 7}.5," for i in range(40))]) + "\n"
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "labels.csv").write_text("example,label,time,kind,digest\nrow 5,x,,suggested,0\n")
    with label_server("rows.csv", folder=tmp_path) as server:
        assert "which changed since" in server.wait_for(lambda state: state["problem"])["problem"]
        assert server.process.wait(PATIENCE) == 2
        assert "labels.csv labels row 5, which changed since they were labeled: put them back" in server.error


def test_the_second_server_of_a_file_and_of_a_port_is_refused(server: Server, place: Path) -> None:
    for words, says in (
        ((), "another page writes to labels.csv"),
        (("--labels", "more.csv", "--port", str(server.port)), f"port {server.port} cannot be used"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ict", "label", "photos", "--no-browser", *words],
            cwd=place,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 2 and says in done.stderr and done.stdout == "", done


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["photos", "--labels", "photos/labels.csv"], "photos/labels.csv is inside photos"),
        (["photos", "--labels", "table.csv"], "table.csv is not a file of the labeling page"),
        (["photos", "--labels", "others.csv"], "others.csv labels 9.jpg, which are not here: name another file"),
        (["photos", "--classes", "cat,-1"], "the class '-1' has no usable name"),
        (["photos", "--text-column", "a"], "--text-column a needs a table"),
        (["photos", "--label-column", "a"], "--label-column a needs a table"),
        (["sorted"], "every photo of sorted has a label already"),
    ],
)
def test_a_mistake_is_a_sentence_and_nothing_is_written(
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    color_photos(tmp_path / "photos", 4)
    color_photos(tmp_path / "sorted/a", 2)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "others.csv").write_text("example,label,time,kind,digest\n9.jpg,cat,,suggested,0\n")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    assert ict(monkeypatch, "label", "--no-browser", *words) == 2
    said = capsys.readouterr()
    assert says in said.err and said.out == ""
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "labels.csv") == before


def test_without_the_extra_it_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.startswith(("starlette", "uvicorn", "ict.label."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert ict(monkeypatch, "label", tmp_path) == 2
    assert capsys.readouterr().err == "error: the labeling page needs uvicorn: run `pip install 'ict-ssl[label]'`.\n"
