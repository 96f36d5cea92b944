"""Many readers at once: each message goes to exactly one of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import brant
from tests.cli.conftest import COMMAND, clean_environment
from tests.waiting import PATIENCE_S

READERS = 8
BURST = 100
BURSTS = 20
# One message, then all that are there, again and again while the file `running` is there.
LOOP = """
while [ -e running ]; do
    "$BRANT" read q || [ $? = 2 ] || exit 1
    "$BRANT" read q --all || [ $? = 2 ] || exit 1
done
"""


def test_each_message_goes_to_one_reader(store: brant.Database, tmp_path: Path) -> None:
    queue = store.queue("q")
    messages = [str(number) for number in range(BURST * BURSTS)]
    (tmp_path / "running").touch()
    # Small batches, so that readers of everything get in each other's way.
    environment = clean_environment(BRANT=COMMAND, BRANT_GENERATOR_BATCH_SIZE="4", BRANT_BUSY_TIMEOUT="30000")
    readers = [
        subprocess.Popen(
            ["sh", "-c", LOOP],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        for _ in range(READERS)
    ]
    commits = store.update_events()
    for start in range(0, len(messages), BURST):
        queue.write_many(messages[start : start + BURST])
        while queue.exists():
            assert commits.wait(PATIENCE_S), "nobody reads"
    (tmp_path / "running").unlink()
    outputs = [reader.communicate(timeout=PATIENCE_S) for reader in readers]
    assert [(reader.returncode, error) for reader, (_, error) in zip(readers, outputs, strict=True)] == [
        (0, "")
    ] * READERS
    taken = [[int(line) for line in output.splitlines()] for output, _ in outputs]
    assert sorted(number for numbers in taken for number in numbers) == list(range(BURST * BURSTS))
    assert all(numbers == sorted(numbers) for numbers in taken), "each reader gets its messages in order"
