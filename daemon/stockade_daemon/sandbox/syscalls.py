"""System calls by group: what a profile may allow, what is always refused with EPERM, everything else is ENOSYS.

A name that this kernel, this machine or this libseccomp does not know is left out: an unknown call cannot be reached by
name, and by number it meets the default. The stance: an unlisted call is answered ENOSYS, because libraries then
fall back as they do on older kernels; calls that only the privileged make are answered EPERM, so that tools print a
sensible message.
"""

from typing import Final


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GROUPS: Final[dict[str, tuple[str, ...]]] = {
    # What every program needs before it does anything of its own: start, memory map, exit, descriptors, identity.
    "base": _names(
        """
        access arch_prctl brk capget clone close close_range dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
        epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group fcntl fcntl64 fork
        futex futex_requeue futex_wait futex_waitv futex_wake get_robust_list get_thread_area getcpu getegid geteuid
        getgid getgroups getpgid getpgrp getpid getppid getrandom getresgid getresuid getrlimit getrusage getsid
        gettid getuid ioctl landlock_add_rule landlock_create_ruleset landlock_restrict_self lseek membarrier mmap
        mmap2 mprotect mremap mseal munmap pause pipe pipe2 poll ppoll prctl prlimit64 pselect6 read readv
        restart_syscall rseq sched_getaffinity sched_yield seccomp select set_robust_list set_thread_area
        set_tid_address setpgid setrlimit setsid socketpair splice sysinfo tee ugetrlimit umask uname uretprobe
        vfork vmsplice wait4 waitid waitpid write writev riscv_hwprobe map_shadow_stack getpeername getsockname
        getsockopt recvfrom recvmmsg recvmsg sendmmsg sendmsg sendto setsockopt shutdown
        """
    ),
    # Files and directories, as far as the mounts let them.
    "files": _names(
        """
        chdir chmod chown copy_file_range creat faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat
        fchown fchownat fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate
        futimesat getcwd getdents getdents64 getxattr getxattrat inotify_add_watch inotify_init inotify_init1
        inotify_rm_watch lchown lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lsetxattr lstat
        mkdir mkdirat mknod mknodat newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2
        readahead readlink readlinkat removexattr removexattrat rename renameat renameat2 rmdir sendfile setxattr
        setxattrat stat statfs statx symlink symlinkat sync sync_file_range syncfs truncate unlink unlinkat utime
        utimensat utimes
        """
    ),
    # Signalling and waiting for processes of the worker's own pid namespace.
    "processes": _names(
        """
        kill pidfd_open pidfd_send_signal process_mrelease rt_sigqueueinfo rt_tgsigqueueinfo tgkill tkill setfsgid
        setfsuid setgid setgroups setregid setresgid setresuid setreuid setuid getpriority ioprio_get
        """
    ),
    "signals": _names(
        """
        rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack signalfd
        signalfd4 sigreturn
        """
    ),
    "time": _names(
        """
        alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
        timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
        timerfd_settime times
        """
    ),
    "memory": _names(
        """
        cachestat madvise mincore msync pkey_alloc pkey_free pkey_mprotect
        """
    ),
    # Memory files and locked memory: within the worker, but more kernel surface. Also decides about named pipes
    # (filters.py, special files).
    "ipc_local": _names("memfd_create mlock mlock2 mlockall munlock munlockall"),
    # Linux's asynchronous I/O: contexts are counted for the whole host (fs.aio-max-nr), and nothing bounds a call's.
    "async_io": _names("io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit"),
    # Unix sockets of the worker's own; the network namespace keeps abstract ones apart, the root hides the others.
    "sockets_local": _names("socket bind connect listen accept accept4"),
    # IPv4 and IPv6 in the worker's own network namespace.
    "sockets_inet": _names("socket bind connect listen accept accept4"),
    "sysv_ipc": _names(
        """
        mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl
        semget semop semtimedop shmat shmctl shmdt shmget
        """
    ),
    # ptrace of the worker's own processes.
    "debug": _names("ptrace"),
    "scheduling": _names(
        """
        ioprio_set sched_get_priority_max sched_get_priority_min sched_getattr sched_getparam sched_getscheduler
        sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler setpriority
        """
    ),
}

# Known calls that only the privileged make, that nothing in a sandbox may, or that a program understands best as
# "operation not permitted" where its profile does not allow the group.
REFUSED: Final = _names(
    """
    accept accept4 acct add_key adjtimex bind bpf chroot clock_adjtime clock_settime connect delete_module
    fanotify_init fanotify_mark finit_module fsconfig fsmount fsopen fspick get_mempolicy init_module io_uring_enter
    io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl listen listmount
    lookup_dcookie lsm_get_self_attr lsm_list_modules lsm_set_self_attr mbind memfd_secret migrate_pages modify_ldt
    mount mount_setattr move_mount move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree
    open_tree_attr perf_event_open pidfd_getfd pivot_root process_madvise process_vm_readv process_vm_writev ptrace
    quotactl quotactl_fd reboot remap_file_pages request_key set_mempolicy set_mempolicy_home_node setdomainname
    sethostname setns settimeofday socket statmount stime swapoff swapon sysfs syslog umount umount2 unshare uselib
    userfaultfd ustat vhangup vm86 vm86old
    """
)

# Calls whose arguments lie in memory, where a filter cannot look: answered as if the kernel did not have them, so that
# libraries take the older call, which a filter can judge.
ABSENT: Final[tuple[str, ...]] = ("clone3", "fchmodat2", "openat2")

# Address families by the group that allows them (socket(2), sys/socket.h).
FAMILIES: Final[dict[str, tuple[int, ...]]] = {"sockets_local": (1,), "sockets_inet": (2, 10)}

# In place, without namespaces (stockade_worker/enter_in_place.py): groups that only touch the process itself, and of
# what they hold the calls that may not be made. `ioctl` and `fcntl` are allowed for a few requests (filters.py).
IN_PLACE_GROUPS: Final = ("base", "files", "processes", "signals", "time", "memory")
NOT_IN_PLACE: Final = _names(
    # No other process or thread: nothing would end it with the call. No other program: one with capabilities of its own
    # would lose the death signal that ends it (prctl(2), PR_SET_PDEATHSIG), and so would a change of uid.
    """
    clone fork vfork execve execveat
    setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups
    """
    # Other processes: signals are held by Landlock as well, questions by nothing else.
    """
    kill tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal process_mrelease getpriority ioprio_get
    """
    # Metadata, which Landlock does not hold, and which an owner changes through a descriptor open for reading.
    """
    chmod fchmod fchmodat chown fchown fchownat lchown utime utimes utimensat futimesat
    setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
    getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat
    ioctl fcntl fcntl64
    """
    # Names that appear and vanish in directories that cannot be read; locks that programs of the host wait for; what
    # makes the host's disks work; buffers of the kernel that no limit of a process counts.
    """
    inotify_add_watch inotify_init inotify_init1 inotify_rm_watch flock
    sync syncfs sync_file_range fadvise64 setsockopt
    """
)
