"""Seeded bash scripts over a small tree. Each step is chosen by what the steps before have left, on a copy of the tree.

The text is ASCII whatever the names are: they are written as $'…'.
"""

import os
import random
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAMES: Final = (
    b"a", b"b.txt", b"c", b"dir", b"two words", b"line\nfeed", b"it's", b'"quoted"', b"not-\xff-utf8", b"-dash", b"--",
    b"\xc3\xa9", b"$HOME", b"*", b"tab\there", b"\\back", b".dot", b"l" * 255, b"\xf0\x9f\x8c\xb2",
)  # fmt: skip
MODES: Final = ("644", "600", "755", "400", "444", "000", "640")
DIRECTORY_MODES: Final = ("755", "700", "500", "750")
# Bytes of a path. The overlay cannot note where a directory with a longer one came from (overlayfs, redirect_max), so
# mv copies it instead, with what that may meet on the way.
LONGEST_MOVED: Final = 240
MEETING: Final = ".meeting"  # never changed by a script
ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}

_SET_ATTRIBUTE: Final = 'python3 -c \'import os, sys; os.setxattr(sys.argv[1], "user.a", b"TEXT")\' PATH'


def word(name: bytes) -> str:
    """A name as one word of bash."""
    return "$'" + "".join(chr(b) if 32 < b < 127 and b not in b"'\\" else f"\\x{b:02x}" for b in name) + "'"


def run(script: str, at: Path) -> subprocess.CompletedProcess[bytes]:
    """Runs a script directly, with what workers have: umask 022 and, as root too, no capabilities."""
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    return subprocess.run(
        [*bare, "bash", "-c", script],
        cwd=at,
        env=ENVIRONMENT,
        umask=0o022,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )


def grow(at: Path, chance: random.Random, *, links: bool = True, without: frozenset[str] = frozenset()) -> None:
    """Fills an empty directory: files, directories, links, names of one file."""
    steps = Steps(at, chance, links, without)
    for _ in range(14):
        run(steps.pick(("create", "create", "mkdir", "nested", "symlink", "hard_link", "mode", "attribute")), at)


@dataclass(frozen=True, slots=True)
class Steps:
    """`links`: whether files get further names, and files with several names are edited: as an ordinary user the
    kernel's overlay makes two files of these."""

    at: Path
    chance: random.Random
    links: bool
    without: frozenset[str] = frozenset()  # kinds of steps that are left out

    def script(self, steps: int) -> str:
        """As many steps, which have been made in `at`."""
        lines: list[str] = []
        kinds = [
            *("create", "append", "sed", "in_place", "truncate", "delete", "move", "move_directory", "swap"),
            *("into_new", "over_empty", "out_and_delete", "file_to_directory", "directory_to_file", "to_symlink"),
            *("from_symlink", "mode", "directory_mode", "symlink", "hard_link", "sparse", "nested", "mkdir", "opaque"),
            *(
                "touch",
                "attribute",
                "directory_attribute",
                "move_over",
                "link_over",
                "fifo",
                "deep",
                "remove_tree",
                "replace",
            ),
        ]
        while len(lines) < steps:
            line = self.pick(tuple(kinds))
            if line != ":":
                run(line, self.at)
                lines.append(line)
        return "\n".join(lines)

    def pick(self, kinds: tuple[str, ...]) -> str:
        """A step of one of these kinds; ":" where nothing is there to be changed so."""
        step: str = getattr(self, f"_{self.chance.choice([kind for kind in kinds if kind not in self.without])}")()
        return step

    def _paths(self, kind: int) -> list[bytes]:
        found = []
        top = os.fsencode(self.at)
        for directory, directories, files in os.walk(top):
            directories.sort()
            for name in (*directories, *sorted(files)):
                path = os.path.join(directory, name)
                if kind == stat.S_IFDIR and len(path) - len(top) > LONGEST_MOVED:
                    continue
                status = os.lstat(path)
                if stat.S_IFMT(status.st_mode) != kind:
                    continue
                if not self.links and kind == stat.S_IFREG and status.st_nlink > 1:
                    continue
                if name == os.fsencode(MEETING):
                    continue
                found.append(b"./" + os.path.relpath(path, top))
        return sorted(found)

    def _one(self, kind: int) -> bytes | None:
        found = self._paths(kind)
        return self.chance.choice(found) if found else None

    def _new(self) -> bytes:
        """A path in a directory that is there, mostly of nothing that is there."""
        place = self.chance.choice([b".", *self._paths(stat.S_IFDIR)])
        for _ in range(8):
            path = place + b"/" + self.chance.choice(NAMES)
            if not os.path.lexists(os.path.join(os.fsencode(self.at), path)):
                return path
        return place + b"/new-%d" % self.chance.randrange(10**6)

    def _text(self) -> str:
        return f"text-{self.chance.randrange(10**6)}"

    def _with_file(self, command: str) -> str:
        path = self._one(stat.S_IFREG)
        return ":" if path is None else command.replace("PATH", word(path)).replace("TEXT", self._text())

    def _create(self) -> str:
        many = self.chance.choice((0, 1, 3, 400))
        return f"for i in $(seq {many}); do echo {self._text()} $i; done > {word(self._new())}"

    def _append(self) -> str:
        return self._with_file("echo TEXT >> PATH")

    def _sed(self) -> str:
        return self._with_file("sed -i s/text/TEXT/ PATH")

    def _in_place(self) -> str:
        return self._with_file("printf TEXT | dd of=PATH conv=notrunc bs=1 seek=3 status=none")

    def _truncate(self) -> str:
        return self._with_file(f"truncate -s {self.chance.choice((0, 5, 5000))} PATH")

    def _delete(self) -> str:
        return self._with_file("rm -f PATH")

    def _replace(self) -> str:
        return self._with_file("echo TEXT > PATH.new~ && mv -f PATH.new~ PATH")

    def _touch(self) -> str:
        return self._with_file(f"touch -d '2001-02-{self.chance.randrange(1, 28):02d} 04:05:06Z' PATH")

    def _attribute(self) -> str:
        return self._with_file(_SET_ATTRIBUTE)

    def _directory_attribute(self) -> str:
        return self._with_directory(_SET_ATTRIBUTE)

    def _move_over(self) -> str:
        return self._over("mv -Tf ONE OTHER")

    def _link_over(self) -> str:
        return self._over("ln -f ONE OTHER") if self.links else ":"

    def _over(self, command: str) -> str:
        files = self._paths(stat.S_IFREG)
        if len(files) < 2:
            return ":"
        one, other = self.chance.sample(files, 2)
        return command.replace("ONE", word(one)).replace("OTHER", word(other))

    def _mode(self) -> str:
        return self._with_file(f"chmod {self.chance.choice(MODES)} PATH")

    def _hard_link(self) -> str:
        return self._with_file(f"ln PATH {word(self._new())}") if self.links else ":"

    def _file_to_directory(self) -> str:
        return self._with_file("rm -f PATH; mkdir PATH; echo TEXT > PATH/inside")

    def _move(self) -> str:
        return self._with_file(f"mv -Tf PATH {word(self._new())}")

    def _into_new(self) -> str:
        return self._with_file(f'p={word(self._new())}/n; mkdir -p "$p" && mv -f PATH "$p"/moved')

    def _to_symlink(self) -> str:
        return self._with_file(f"rm -f PATH; ln -s {word(self.chance.choice(NAMES))} PATH")

    def _mkdir(self) -> str:
        return f"mkdir {word(self._new())}"

    def _nested(self) -> str:
        new = word(self._new())
        return f"mkdir -p {new}/x/y; echo {self._text()} > {new}/x/y/z; echo {self._text()} > {new}/x/w"

    def _deep(self) -> str:
        return f"mkdir -p {word(self._new())}/{'/'.join('deep' for _ in range(20))}"

    def _symlink(self) -> str:
        target = self.chance.choice((b"b.txt", b"dangling", b"./c", b"x/y"))
        return f"ln -s {word(target)} {word(self._new())}"

    def _from_symlink(self) -> str:
        path = self._one(stat.S_IFLNK)
        made = self.chance.choice(("mkdir", "touch"))
        return ":" if path is None else f"rm -f {word(path)}; {made} {word(path)}"

    def _sparse(self) -> str:
        size = self.chance.choice((1, 1, 1, 24))
        return f'p={word(self._new())}; truncate -s {size}M "$p"; echo {self._text()} >> "$p"'

    def _fifo(self) -> str:
        return f"mkfifo {word(self._new())}"

    def _moved(self) -> list[bytes]:
        """Directories that can be moved. An ordinary user's `mv` has to copy what is in the workspace and to remove it
        then, which fails at a directory that its owner may not change (docs/effects.md)."""
        found = self._paths(stat.S_IFDIR)
        if self.links:
            return found
        top = os.fsencode(self.at)
        shut = [path for path in found if os.lstat(os.path.join(top, path)).st_mode & 0o700 != 0o700]
        return [path for path in found if not any((each + b"/").startswith(path + b"/") for each in shut)]

    def _with_moved(self, command: str) -> str:
        found = self._moved()
        return command.replace("PATH", word(self.chance.choice(found))) if found else ":"

    def _with_directory(self, command: str) -> str:
        path = self._one(stat.S_IFDIR)
        return ":" if path is None else command.replace("PATH", word(path)).replace("TEXT", self._text())

    def _move_directory(self) -> str:
        return self._with_moved(f"mv -T PATH {word(self._new())}")

    def _directory_mode(self) -> str:
        return self._with_directory(f"chmod {self.chance.choice(DIRECTORY_MODES)} PATH")

    def _opaque(self) -> str:
        return self._with_directory("rm -rf PATH; mkdir PATH; echo TEXT > PATH/put")

    def _remove_tree(self) -> str:
        return self._with_directory("rm -rf PATH") if self.chance.random() < 0.3 else ":"

    def _directory_to_file(self) -> str:
        return self._with_directory("rm -rf PATH; echo TEXT > PATH")

    def _over_empty(self) -> str:
        return self._with_moved(f'p={word(self._new())}; mkdir "$p" && mv -T PATH "$p"')

    def _out_and_delete(self) -> str:
        return self._with_directory(
            f"f=$(find PATH -maxdepth 1 -type f -name '[a-z]*' | sort | head -n1); "
            f'test -n "$f" && mv -T "$f" {word(self._new())} && rm -rf PATH'
        )

    def _swap(self) -> str:
        directories = self._moved()
        if len(directories) < 2:
            return ":"
        one, other = self.chance.sample(directories, 2)
        if one.startswith(other + b"/") or other.startswith(one + b"/"):
            return ":"
        return f"mv -T {word(one)} ./swap~ && mv -T {word(other)} {word(one)} && mv -T ./swap~ {word(other)}"
