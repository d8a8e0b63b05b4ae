/* Preloaded into a process: the n-th write, flush or rename in a folder fails, as on a full disk.

FAULT_FOLDER   only files below it count
FAULT_AT       n, counted from 1; from then on all writes fail, and the one flush or rename
FAULT_LOG      file that gets a line for each call that counts, so that a test knows how many there are */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;

static int is_inside(const char *path) {
    const char *folder = getenv("FAULT_FOLDER");
    return folder && path && !strncmp(path, folder, strlen(folder));
}

static int fails(const char *path, const char *what, int goes_on) {
    if (!is_inside(path)) return 0;
    ++calls;
    const char *log = getenv("FAULT_LOG");
    if (log) {
        int handle = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0666);
        syscall(SYS_write, handle, what, strlen(what));
        syscall(SYS_write, handle, "\n", 1);
        syscall(SYS_close, handle);
    }
    int at = getenv("FAULT_AT") ? atoi(getenv("FAULT_AT")) : 0;
    return at && (goes_on ? calls >= at : calls == at);
}

static int handle_fails(int handle, const char *what, int goes_on) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return fails(path, what, goes_on);
}

ssize_t write(int handle, const void *data, size_t size) {
    if (handle_fails(handle, "write", 1)) { errno = ENOSPC; return -1; }
    return syscall(SYS_write, handle, data, size);
}

int fsync(int handle) {
    if (handle_fails(handle, "fsync", 0)) { errno = EIO; return -1; }
    return syscall(SYS_fsync, handle);
}

int rename(const char *from, const char *to) {
    char path[4096];
    if (fails(realpath(from, path), "rename", 0)) { errno = EIO; return -1; }
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
