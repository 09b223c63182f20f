"""Uses the window as a person does, then checks the result on its server.

Use: window.py chat HOME WINDOW     types a message and waits for its finished answer
     window.py native HOME WINDOW   drags a model in, and answers the system's dialogs
     window.py close HOME WINDOW    closes the window while an answer is being written
     window.py kept HOME            checks that the part of the answer written so far was kept

HOME is the folder of the running program.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import urllib.request

MESSAGE = "Name three birds."
LINK = "https://example.com/there"
STORY = "Tell me a very long story about a bird that flies over the sea."
PATIENCE = 180  # longest wait in seconds, for an answer or anything else
AGAIN = 20  # seconds without a result before an action is repeated


class Server:
    """The server behind the window."""

    def __init__(self, home: str) -> None:
        self.where = json.loads(pathlib.Path(home, "data/window.json").read_text())

    def ask(self, method: str, path: str, body: object = None):
        headers = {"Authorization": "Bearer " + self.where["token"], "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.where["base"] + path, method=method, headers=headers, data=data)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def get(self, path: str):
        return self.ask("GET", path)

    def models(self) -> list[str]:
        return [m["name"] for m in self.get("/app/state")["models"]]


def do(*what: object) -> str:
    return subprocess.run(["xdotool", *map(str, what)], check=False, capture_output=True, text=True).stdout.strip()


def until(what: str, look):
    """Waits until look returns something, and returns it."""
    return again(what, lambda: None, look)


def again(what: str, act, look):
    """Repeats act until look returns something, and returns that."""
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE:
        act()
        acted = time.monotonic()
        while time.monotonic() - acted < AGAIN:
            if seen := look():
                return seen
            time.sleep(0.25)
    sys.exit(f"window.py: no {what} after {PATIENCE} s")


def title(window: str) -> str:
    """Returns the window's title. The page sets it as soon as it responds to keys."""
    return do("getwindowname", window)


def place(window: str) -> tuple[int, int, int, int]:
    values = dict(line.split("=") for line in do("getwindowgeometry", "--shell", window).split())
    return int(values["X"]), int(values["Y"]), int(values["WIDTH"]), int(values["HEIGHT"])


def keep(window: str) -> None:
    """Saves a picture of the window."""
    time.sleep(1)  # the screen lags a frame or two behind the page
    subprocess.run(["import", "-window", window, "build/bin/window.png"], check=True)


def chat(home: str, window: str) -> None:
    server = Server(home)
    start = time.monotonic()
    until("page", lambda: title(window) == "New chat · Godwit")
    _, _, width, height = place(window)

    def say() -> None:
        do("mousemove", "--window", window, width // 2, height - 85, "click", "1")
        do("key", "ctrl+a")
        do("type", "--delay", "30", MESSAGE)
        do("key", "Return")

    first = again("chat", say, lambda: server.get("/app/chats")["chats"])[0]["id"]

    def answer() -> str:
        said, *answers = server.get(f"/app/chats/{first}")["messages"] or [None]
        if said and said["content"] != MESSAGE:
            sys.exit(f"window.py: the server received {said['content']!r}")
        # The page clears the chat's unseen mark when it has drawn the answer.
        done = answers and answers[0]["status"] == "done" and first not in server.get("/app/chats")["unseen"]
        return answers[0]["content"] if done else ""

    text = until("finished answer", answer)
    keep(window)
    print(f"window.py: answered after {time.monotonic() - start:.1f} s: {text[:60]!r}")


def native(home: str, window: str) -> None:
    server = Server(home)
    drag(server, home, window)
    picked = dialog(server, "/app/library/pick", {}, "Add models", f"{home}/else/picked.gguf")
    if picked != {"models": ["picked"]}:
        sys.exit(f"window.py: the dialog for models gave {picked}")
    none = dialog(server, "/app/library/pick", {}, "Add models", None)
    if none["models"]:
        sys.exit(f"window.py: the dialog that was cancelled gave {none}")
    saved = dialog(server, "/app/native/save", {"name": "all.json", "what": "chats"}, "^Save$", f"{home}/saved.json")
    if MESSAGE not in pathlib.Path(saved["path"]).read_text():
        sys.exit(f"window.py: {saved} does not hold the chat")
    opened = pathlib.Path(home, "opened")
    follow(server, window, opened)
    # Folders and addresses are opened by a test script that records its
    # arguments.
    server.ask("POST", "/app/models/picked/reveal", {})
    server.ask("POST", "/app/native/open", {"url": "https://example.com/a?b=c"})
    wanted = {f"{home}/else", "https://example.com/a?b=c", LINK}
    until("folder, link and address opened", lambda: opened.exists() and set(opened.read_text().split()) == wanted)
    print("window.py: a model was dragged in, another picked, the chats saved, a link followed, a folder and an address opened")


def follow(server: Server, window: str, opened: pathlib.Path) -> None:
    """Opens a chat whose answer is one long link, and clicks on it."""
    stamp = {"created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z"}
    where = {"id": 1, "parent": 0, "chosen": 2, "role": "user", "content": "Where?", "status": "done", "stats": {}, **stamp}
    there = {**where, "id": 2, "parent": 1, "chosen": 0, "role": "assistant", "content": f"[{'There it is. ' * 200}]({LINK})"}
    one = {"title": "A link", "folder": "", "chosen": 1, "model": "", "system": "", "settings": {}, "messages": [where, there], **stamp}
    made = server.ask("POST", "/app/import", {"format": "godwit-chats", "version": 1, "chats": [one]})
    server.ask("POST", f"/app/chats/{made['chats'][0]['id']}", {"pinned": True})
    _, _, width, height = place(window)

    def choose() -> bool:
        do("mousemove", "--window", window, 100, 152, "click", "1")  # the first chat in the list
        return title(window) == "A link · Godwit"

    def click() -> None:
        for y in (0, 5, 10):  # at least one of these hits a line of text
            do("mousemove", "--window", window, width * 6 // 10, height * 4 // 10 + y, "click", "1")

    until("chat with a link", choose)
    again("link opened", click, lambda: opened.exists() and LINK in opened.read_text())


def drag(server: Server, home: str, window: str) -> None:
    source = subprocess.Popen([f"{home}/desktop", "drag", f"{home}/else/dragged.gguf"])

    def pull() -> None:
        do("mousemove", x + width // 2, y + height // 2, "mousedown", 1)
        for part in range(1, 21):
            do("mousemove", x + width // 2 + part * (to_x + to_width // 2 - x - width // 2) // 20, y + height // 2 + part * (to_y + to_height // 3 - y - height // 2) // 20)
            time.sleep(0.05)
        time.sleep(1)
        do("mouseup", 1)

    try:
        x, y, width, height = place(until("window to drag out of", lambda: do("search", "--onlyvisible", "--name", "^files$")))
        to_x, to_y, to_width, to_height = place(window)
        again("model that was dragged in", pull, lambda: "dragged" in server.models())
    finally:
        source.terminate()
        source.wait()


def dialog(server: Server, path: str, body: object, name: str, answer: str | None):
    """Makes the server open a dialog, enters a path or cancels, and returns the server's response."""
    given = []
    asking = threading.Thread(target=lambda: given.append(server.ask("POST", path, body)), daemon=True)
    asking.start()

    def shown() -> str:
        return do("search", "--onlyvisible", "--name", name)

    def reply() -> None:
        if not shown():
            return
        do("windowfocus", shown().split()[-1])
        if answer is None:
            do("key", "Escape")
            return
        if name != "^Save$":
            do("key", "ctrl+l")  # an open dialog shows no path field until Ctrl+L
            time.sleep(1)
        do("key", "ctrl+a")
        do("type", "--delay", "60", answer)
        time.sleep(1)
        do("key", "Return")

    until(f"dialog {name}", shown)
    time.sleep(1)
    again(f"answer of the dialog {name}", reply, lambda: given)
    return given[0]


def close(home: str, window: str) -> None:
    server = Server(home)
    made = server.ask("POST", "/app/chats", {"model": "picked"})
    server.ask("POST", f"/app/chats/{made['id']}/messages", {"parent": 0, "content": STORY, "attachments": [], "model": "picked"})
    until("words of a story", lambda: len(server.get(f"/app/chats/{made['id']}")["messages"][1]["content"]) > 60)
    subprocess.run([f"{home}/desktop", "close", window], check=True)


def kept(home: str) -> None:
    server = Server(home)
    (story,) = [c for c in server.get("/app/chats")["chats"] if c["title"].startswith(STORY[:20])]
    answer = server.get(f"/app/chats/{story['id']}")["messages"][1]
    if answer["status"] != "stopped" or len(answer["content"]) <= 60:
        sys.exit(f"window.py: of the answer there is {answer}")
    print(f"window.py: closed while it answered; {len(answer['content'])} characters were kept")


if __name__ == "__main__":
    os.environ.setdefault("NO_AT_BRIDGE", "1")
    {"chat": chat, "native": native, "close": close, "kept": kept}[sys.argv[1]](*sys.argv[2:])
