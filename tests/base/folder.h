/* A folder of its own for a test program: folder_make first, folder_remove last. */
#ifndef COLM_TESTS_BASE_FOLDER_H
#define COLM_TESTS_BASE_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder_path[512];

static inline void folder_make(void) {
    const char *top = getenv("TMPDIR");
    snprintf(folder_path, sizeof folder_path, "%s/colm-test-XXXXXX", top && *top ? top : "/tmp");
    if (!mkdtemp(folder_path)) {
        printf("Bail out! cannot make %s\n", folder_path);
        exit(1);
    }
}

/* Path of a name in the folder; the last 8 stay valid. */
static inline const char *folder_at(const char *name) {
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder_path, name);
    return path;
}

/* Plain, not atomic: for what the tests read. */
static inline const char *folder_put(const char *name, const void *bytes, size_t n) {
    const char *path = folder_at(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) {
        printf("Bail out! cannot write %s\n", path);
        exit(1);
    }
    return path;
}

/* Entries of a folder, hidden ones too. */
static inline size_t folder_count(const char *path) {
    size_t n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (dir) closedir(dir);
    return n;
}

static inline void folder_clear(const char *path) {
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char child[2048];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if ((size_t)snprintf(child, sizeof child, "%s/%s", path, e->d_name) >= sizeof child) continue;
        if (lstat(child, &st) == 0 && S_ISDIR(st.st_mode)) {
            folder_clear(child);
            rmdir(child);
        } else {
            unlink(child);
        }
    }
    if (dir) closedir(dir);
}

static inline void folder_remove(void) {
    folder_clear(folder_path);
    rmdir(folder_path);
}

#endif
