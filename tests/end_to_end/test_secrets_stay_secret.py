"""A secret that bodies use is in nothing that the daemon keeps or says."""

import hashlib
import signal
from pathlib import Path

from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import Stockaded

TOKEN = "correct-battery-horse-staple-9"


def test_neither_state_nor_log_nor_any_listing_holds_a_secret(
    stockaded: Stockaded, directory: Path, stockade: Stockade
) -> None:
    profiles, file = directory / "profiles", directory / "token"
    profiles.mkdir()
    file.write_text(TOKEN)
    file.chmod(0o600)
    (profiles / "mine.toml").write_text(f'extends = "dev"\nwiden = ["secrets"]\nsecrets.TOKEN = {{file = "{file}"}}\n')
    with stockaded.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{profiles}"]\n')
    stockaded.start()
    done = stockade("exec", "--profile", "mine", "--", "sha256sum", "/run/secrets/TOKEN", daemon=stockaded)
    assert done.stdout.split()[0] == hashlib.sha256(TOKEN.encode()).hexdigest(), done.stderr
    said = [stockade(*words, daemon=stockaded) for words in (["ledger", "--json"], ["sessions", "--json"])]
    stockaded.end(signal.SIGTERM)
    for each in said:
        assert TOKEN not in each.stdout + each.stderr
    kept = [path for path in (*stockaded.state.rglob("*"), stockaded.log) if path.is_file()]
    assert any(path.name.startswith("ledger") for path in kept)
    for path in kept:
        assert TOKEN.encode() not in path.read_bytes(), path
