"""Ann and Ben are agents, Cleo answers asks, Dan may do everything."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROLES: Final = {"ann": "agent", "ben": "agent", "cleo": "approver", "dan": "admin"}


@dataclass(frozen=True, slots=True)
class People:
    tokens: Mapping[str, str]
    files: Mapping[str, Path]  # with the digests
    work: Path

    def workspace(self, name: str) -> Path:
        return self.work / name

    def toml(self, more: Mapping[str, str] | None = None) -> str:
        """Their tables of stockade.toml; `more`: lines of somebody's own."""
        return "".join(
            f'[[principals]]\nname = "{name}"\nroles = ["{role}"]\ntoken = "{self.files[name]}"\n'
            f'workspaces = ["{self.workspace(name)}"]\n{(more or {}).get(name, "")}\n'
            for name, role in ROLES.items()
        )
