"""Bulk translation survives `kill -9`; without its protection it would not."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("bulk_kills.py")


def run(*arguments: str) -> tuple[int, dict[str, int]]:
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=280)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["values"]


def test_killed_and_run_again_the_folder_ends_with_the_same_bytes() -> None:
    code, values = run("--shards", "8", "--rows", "100", "--kills", "3", "--seed", "1", "--writing")
    assert (values["equal"], values["finished_twice"], values["other_files_left"], code) == (1, 0, 0, 0)
    assert values["kills"] > 0


def test_files_written_under_their_own_names_and_believed_would_be_found_out() -> None:
    code, values = run("--shards", "4", "--rows", "1000", "--kills", "2", "--seed", "2", "--writing", "--careless")
    assert values["kills"] > 0
    assert values["different_translations"] > 0
    assert code == 1


def test_an_object_store_ends_with_the_same_bytes_too() -> None:
    code, values = run("--s3", "--shards", "6", "--rows", "50", "--kills", "3", "--seed", "1", "--writing")
    assert (values["equal"], values["finished_twice"], values["other_files_left"], code) == (1, 0, 0, 0)
    assert values["kills"] > 0


def test_objects_believed_without_a_manifest_would_be_found_out() -> None:
    code, values = run(
        "--s3", "--shards", "4", "--rows", "1000", "--kills", "2", "--seed", "2", "--writing", "--careless"
    )
    assert values["kills"] > 0
    assert values["different_translations"] > 0
    assert code == 1
