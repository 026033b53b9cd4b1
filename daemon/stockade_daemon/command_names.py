"""Names for which a rule means less than it says: what they run stands in their words, or in their input."""

from typing import Final

# Builtins of bash that run nothing and change nothing that decides what runs. Rules can allow these, though no file has
# their name.
HARMLESS: Final = frozenset({"cd", "echo", "false", "pwd", "test", "true", "type"})

# Never allowed: words of the shell's grammar, builtins that run their words or change what a later name means, and
# programs that run what they read, or run it as somebody else. `printf` sets variables, PATH too, by -v and by %n.
NEVER: Final = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "select"}
    | {"function", "time", "coproc", "[[", "]]", "{", "}", "!", "[", ":"}
    | {".", "source", "eval", "exec", "command", "builtin", "alias", "unalias", "hash", "enable", "trap", "set"}
    | {"shopt", "export", "declare", "typeset", "local", "readonly", "unset", "let", "read", "mapfile", "readarray"}
    | {"getopts", "bind", "complete", "compgen", "compopt", "fc", "history", "pushd", "popd", "dirs", "shift"}
    | {"return", "break", "continue", "exit", "logout", "wait", "jobs", "fg", "bg", "disown", "suspend", "times"}
    | {"ulimit", "umask", "kill", "caller", "help", "printf"}
    | {"xargs", "parallel", "sudo", "su", "doas", "pkexec", "run0", "runuser", "chroot", "unshare", "nsenter"}
)

# Run what their words say: a rule allows exactly its words, has at least one behind the name, and no `*`. `test` is
# one in bash: `test -v 'x[$(…)]'` runs what stands in the brackets.
RUNNERS: Final = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh", "busybox", "toybox"}
    | {"python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "npx", "lua", "luajit", "php", "tclsh"}
    | {"wish", "expect", "Rscript", "R", "julia", "guile", "scheme", "java", "jshell", "groovy", "scala", "ghc"}
    | {"awk", "gawk", "mawk", "nawk", "original-awk", "sed", "ed", "ex", "vi", "vim", "view", "nvim", "emacs", "nano"}
    | {"less", "more", "man", "m4", "bc", "dc", "gdb", "strace", "ltrace", "perf", "script", "screen", "tmux"}
    | {"find", "fd", "fdfind", "env", "nohup", "nice", "ionice", "chrt", "taskset", "timeout", "setsid", "stdbuf"}
    | {"setarch", "linux32", "linux64", "setpriv", "prlimit", "flock", "watch", "entr", "at", "batch", "crontab"}
    | {"start-stop-daemon", "systemd-run", "run-parts", "ssh", "scp", "sftp", "rsync", "tar", "zip", "cpio", "split"}
    | {"openssl", "socat", "nc", "ncat", "curl", "wget", "docker", "podman", "kubectl", "pipx", "uvx", "uv", "poetry"}
    | {"ld.so", "ld-linux.so", "ionice", "unbuffer", "faketime", "fakeroot", "proot", "catchsegv", "valgrind"}
    | {"test"}
)


def runs_its_words(name: str) -> bool:
    """Whether it is one of RUNNERS, of whatever version: python3.11, perl5.36, ld-linux-x86-64.so.2."""
    stem = name.rstrip("0123456789.-")
    return name in RUNNERS or stem in RUNNERS or name.startswith("ld-linux") or name.startswith("python")


def is_plain(word: str) -> bool:
    """Whether the `*` of a rule stands for it: no option, no file of options, no setting."""
    return not word.startswith(("-", "+", "@")) and "=" not in word and word.isprintable()
