/* Preloaded into a server: each sync takes SYNC_MICROSECONDS longer, as on a disk without a battery behind its cache. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int slowly(const char *name, int file) {
    const char *text = getenv("SYNC_MICROSECONDS");
    long micros = text ? atol(text) : 0;
    struct timespec pause = {micros / 1000000, micros % 1000000 * 1000};
    nanosleep(&pause, NULL);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
