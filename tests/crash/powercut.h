/* A disk whose power can be cut: an SQLite VFS over the real one, and the calls with which cell/
 * writes its own files (the linker puts them in the place of open, pwrite, rename and so on).
 *
 * Every write, truncation and sync is counted, and so is every creation, renaming, removal and sync
 * in the directory. At the chosen one the power goes: the files get what was synced, and of what
 * was not any of its sectors, by the seed; of what was changed in the directory since its last sync
 * any part; then the process ends. Or the chosen sync fails, once, and what it should
 * have synced never becomes durable, though reads still show it: so do real disks and the page
 * cache. Or SQLite's writes find no room for a while. */
#ifndef LSFS_TESTS_POWERCUT_H
#define LSFS_TESTS_POWERCUT_H

#include <stdbool.h>
#include <stdint.h>

/* How a process ends whose power is cut; the latter: with a directory that was not synced. */
enum { POWERCUT_STATUS = 42, POWERCUT_TORN = 43 };
enum { POWERCUT_TIMES = 6 }; /* that a test cuts there, with other seeds */

/* Becomes SQLite's default; before any database is opened. */
void powercut_install(uint64_t seed);
/* 0: never. The n-th write, truncation or sync, counted from 1. */
void powercut_at(long n);
/* 0: never. The n-th sync, counted from 1. */
void powercut_fail_sync(long n);
/* From the n-th write on, `times` writes find no room. */
void powercut_no_room(long n, long times);

/* From now on this process and its children note of each operation, by its number and in memory
 * that they share, whether a file was renamed just before and the directory not synced:
 * POWERCUT_TORN; 0 after the last. */
const uint8_t *powercut_watch(void);
/* The number of operations, and of syncs, so far. */
long powercut_operations(void);
long powercut_syncs(void);
/* True if the chosen sync has failed. */
bool powercut_failed(void);
/* Gives the files what a cut now would leave of them. No database may be open. */
void powercut_leave(void);

#endif
