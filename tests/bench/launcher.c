/* Starts a command many times and prints how long each run took: the yardstick's launcher.
 *
 *     launcher COUNT AT_ONCE [FILE:FD ...] -- ARGV...
 *
 * Each run gets FILE open as descriptor FD, from its start, and /dev/null as standard input and output. Prints a line
 * for each run, nanoseconds from before posix_spawn(3) to after waitpid(2), and last the nanoseconds of all of them.
 * Exit status 1 where a run does not exit with 0. In C, because a slow launcher would flatter the other side.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

enum { MOST_AT_ONCE = 64 };

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int fail(const char *what, int number)
{
    fprintf(stderr, "launcher: %s: %s\n", what, strerror(number));
    return 1;
}

int main(int argc, char **argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    pid_t pids[MOST_AT_ONCE];
    long long begun[MOST_AT_ONCE], first;
    int count, at_once, started = 0, ended = 0, argument = 3, slot;

    if (argc < 5)
        return fail("usage: launcher COUNT AT_ONCE [FILE:FD ...] -- ARGV...", EINVAL);
    count = atoi(argv[1]);
    at_once = atoi(argv[2]);
    if (count < 1 || at_once < 1 || at_once > MOST_AT_ONCE)
        return fail("COUNT and AT_ONCE", EINVAL);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (; argument < argc && strcmp(argv[argument], "--") != 0; argument++) {
        char *colon = strrchr(argv[argument], ':');
        if (colon == NULL)
            return fail(argv[argument], EINVAL);
        *colon = 0;
        posix_spawn_file_actions_addopen(&actions, atoi(colon + 1), argv[argument], O_RDONLY, 0);
    }
    argument++;
    if (argument >= argc)
        return fail("no command", EINVAL);
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    for (slot = 0; slot < at_once; slot++)
        pids[slot] = 0;
    first = now();
    while (ended < count) {
        int status;
        pid_t pid;
        for (slot = 0; slot < at_once && started < count; slot++) {
            if (pids[slot] != 0)
                continue;
            begun[slot] = now();
            int error = posix_spawn(&pids[slot], argv[argument], &actions, &attributes, argv + argument, environ);
            if (error != 0)
                return fail(argv[argument], error);
            started++;
        }
        do
            pid = waitpid(-1, &status, 0);
        while (pid < 0 && errno == EINTR);
        if (pid < 0)
            return fail("waitpid", errno);
        for (slot = 0; slot < at_once && pids[slot] != pid; slot++)
            ;
        if (slot == at_once)
            continue;
        printf("%lld\n", now() - begun[slot]);
        pids[slot] = 0;
        ended++;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "launcher: %s: wait status %#x\n", argv[argument], status);
            return 1;
        }
    }
    printf("%lld\n", now() - first);
    return 0;
}
