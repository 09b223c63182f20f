"""Types a message into the window and waits for its finished answer.

Use: window.py HOME WINDOW. HOME is the folder of the running program.
"""

import json
import subprocess
import sys
import time
import urllib.request

MESSAGE = "Name three birds."
PATIENCE = 90  # seconds for an answer
EVERY = 8  # seconds between two tries to type, while the page is opening


def main(home: str, window: str) -> None:
    with open(f"{home}/data/window.json") as f:
        where = json.load(f)

    def get(path: str):
        request = urllib.request.Request(where["base"] + path, headers={"Authorization": "Bearer " + where["token"]})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def keys(*what: str) -> None:
        subprocess.run(["xdotool", *what], check=True)

    start, typed = time.monotonic(), 0.0
    while time.monotonic() - start < PATIENCE:
        listed = get("/app/chats")
        chats = listed["chats"]
        if not chats and time.monotonic() - typed > EVERY:
            typed = time.monotonic()
            width, height = size(window)
            keys("mousemove", "--window", window, str(width // 2), str(height - 85), "click", "1")
            keys("key", "ctrl+a")
            keys("type", "--delay", "30", MESSAGE)
            keys("key", "Return")
        if chats:
            said, *answers = get(f"/app/chats/{chats[0]['id']}")["messages"]
            if said["content"] != MESSAGE:
                sys.exit(f"window.py: the server received {said['content']!r}")
            done = answers and answers[0]["status"] == "done" and answers[0]["content"]
            # The page takes the mark away when it has drawn the answer.
            if done and chats[0]["id"] not in listed["unseen"]:
                keep(window)
                print(f"window.py: answered after {time.monotonic() - start:.1f} s: {answers[0]['content'][:60]!r}")
                return
        time.sleep(0.25)
    sys.exit(f"window.py: no finished answer after {PATIENCE} s")


def size(window: str) -> tuple[int, int]:
    out = subprocess.run(["xdotool", "getwindowgeometry", "--shell", window], check=True, capture_output=True, text=True).stdout
    values = dict(line.split("=") for line in out.split())
    return int(values["WIDTH"]), int(values["HEIGHT"])


def keep(window: str) -> None:
    """Keeps a picture of the window."""
    time.sleep(1)  # the screen is a frame or two behind the page
    subprocess.run(["import", "-window", window, "build/bin/window.png"], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
