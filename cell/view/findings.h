/* All that lsctl finds wrong with mounts, cells, replicas, keys and files: one table of conditions,
 * each with its severity, what it means and what to do. `status` lists the findings of a cell, its
 * verdict for monitors is the worst severity among them, `doctor` lists those of a machine.
 *
 * A list of findings is an array of objects with the texts `condition`, `severity`, `object`,
 * `what` and `do`. */
#ifndef LSFS_VIEW_FINDINGS_H
#define LSFS_VIEW_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>

/* In words and as the verdict: good, degraded, down. */
enum severity {
	SEVERITY_WARNING,  /* the cell is good all the same */
	SEVERITY_DEGRADED, /* one more failure stops it, a limit is near, or a machine is apart */
	SEVERITY_DOWN,     /* nothing is served, or nothing that grows is committed */
};

// clang-format off
#define FINDINGS(F)                                                                             \
	F(no_master, DOWN, "has no master", "start replicas until a majority runs")             \
	F(no_majority, DOWN, "no majority of its replicas works",                               \
	  "make room where disks are full, and bring back the replicas that do not work")       \
	F(master_unreachable, DOWN, "its master cannot be reached from here",                   \
	  "see whether the network leads to it")                                                \
	F(not_running, DOWN, "a cell in one process that does not run", "start it with lsctl up") \
	F(bare, DOWN, "no cell is mounted there", "mount it")                                   \
	F(session_unsafe, DOWN, "its session is not safe",                                      \
	  "see whether the replicas can be reached (lsctl status)")                             \
	F(mount_dead, DOWN, "a dead mount: its lsfs was killed",                                \
	  "mount it again, or remove it with umount")                                           \
	F(mount_silent, DOWN, "its lsfs does not answer",                                       \
	  "see whether it is stopped; else end it and mount again")                             \
	F(mount_broken, DOWN, "cannot be asked", "see the log of its lsfs")                     \
	F(not_mounted, DEGRADED, "is in /etc/fstab and not mounted", "mount it")                \
	F(bare_lock, DEGRADED, "is locked for this machine only, where a cell should be mounted", \
	  "end that process, and mount the cell")                                               \
	F(few_replicas, DEGRADED, "one more failure would stop it",                             \
	  "bring back the replicas that do not work")                                           \
	F(states_differ, DEGRADED,                                                              \
	  "its replicas have different states, and too few answer to tell which is right",      \
	  "bring the others back, or restore a backup")                                         \
	F(no_link, DEGRADED, "do not reach each other, and the next failure may stop the cell", \
	  "see whether the network and firewalls lead from each to the port of the other")      \
	F(no_datagrams, WARNING, "answers over TCP, but not over UDP",                          \
	  "open its port for UDP, too: KeepAlives go there while TCP stalls")                   \
	F(versions_differ, WARNING, "its replicas run programs of different versions",          \
	  "go on with the upgrade: install the newest everywhere, and start each again")        \
	F(backup_old, WARNING, "its last backup is older than a day",                           \
	  "make one (lsctl backup), and see what should make them")                             \
	F(limit_near, DEGRADED, "a limit is near",                                              \
	  "make room, or see lsctl status --limits and lsctl cell set")                         \
	F(disk_full, WARNING, "has no room on its disk", "make room there: it goes on by itself") \
	F(unreachable, WARNING, "cannot be reached",                                            \
	  "see whether lscell runs there, and whether the network leads to it")                 \
	F(repairing, WARNING, NULL, "wait; if it does not end, see the log of its lscell")      \
	F(lost, WARNING, NULL, NULL)                                                            \
	F(expelled, WARNING, NULL, "end it: its data directory can't be used again")            \
	F(alone, WARNING, NULL, NULL)                                                           \
	F(outdated, WARNING, NULL, NULL)                                                        \
	F(clock_differs, WARNING, "its time of day differs from that of this machine",          \
	  "have both machines set their clocks (chrony, ntpd)")                                 \
	F(directory_lock, WARNING, "this directory is locked for this machine only",            \
	  "lock it with the attribute user.ls.lock")                                            \
	F(lease, WARNING, "this file has a lease, which only this machine knows of",            \
	  "wait for changes with poll or lsctl watch")                                          \
	F(acl_missing, WARNING, "this ACL file is named and not there: nobody has the right",   \
	  "write the file, or have another one named (setfattr)")                               \
	F(mounted_twice, WARNING, "its cell is mounted a second time, with the same key",       \
	  "mount it once, and bind it elsewhere: tools take files of both for different ones")  \
	F(key_open, WARNING, "others may read or write this key",                               \
	  "chmod 600, and replace the key if others may have read it")                          \
	F(key_foreign, DEGRADED, "this key belongs to another user",                            \
	  "chown it, and replace the key if that user must not have it")                        \
	F(directory_open, WARNING, "others have access to this data directory", "chmod 700")    \
	F(everybody_in, WARNING, "allow_other lets every user of this machine write",           \
	  "have another file than one with * named (setfattr -n user.ls.acl.write), or mount"   \
	  " without allow_other")                                                               \
	F(cell_file_unreadable, DEGRADED, "cannot be used as a cell file",                      \
	  "copy it from another client of the cell")                                            \
	F(cell_file_old, WARNING, "older than the cell's list of replicas", "lsctl cell refresh") \
	F(cell_file_keys, DEGRADED, "lacks the newest signing key: sequencers are not verified", \
	  "lsctl cell refresh")
// clang-format on

enum finding {
#define FINDING(name, severity, what, todo) FINDING_##name,
	FINDINGS(FINDING)
#undef FINDING
};

/* Appends a finding. */
void finding_add(json_t *findings, enum finding kind, const char *object);
/* The same; `format` makes the detail that follows the meaning. */
void finding_add_detail(json_t *findings, enum finding kind, const char *object, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));
/* Appends the finding of an enum voting_condition, with the words of cell/wire/condition.h;
 * nothing of one that is in order. */
void finding_add_condition(json_t *findings, const char *object, unsigned condition);

/* The worst severity; -1 when there is no finding. */
int findings_worst(const json_t *findings);
/* "good", "degraded" or "down": the verdict for monitors. */
const char *findings_verdict(const json_t *findings);
/* The same as a sentence about the cell, with the first of the worst findings, in `text`. */
void findings_sentence(const json_t *findings, const char *cell, char *text, size_t size);
/* Prints a line for each finding that is at least so severe: PREFIX OBJECT: WHAT, and, if
 * `remedies`, what to do. */
void findings_print(const json_t *findings, int severity, const char *prefix, bool remedies);

#endif
