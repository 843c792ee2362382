/* doctor: looks for what commonly goes wrong, and says what to do. */
#include "ctl/cell_status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <mntent.h>
#include <paths.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/sys/local_lock.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/view/ask.h"
#include "cell/view/findings.h"
#include "cell/view/health.h"
#include "cell/view/output.h"
#include "config.h"
#include "ctl/cell.h"
#include "ctl/mounted_path.h"

enum {
	NODES_MOST = 1000, /* of a directory: a whole cell may have a million */
};

/* ---- patience ---- */

/* A cell that has become silent does not hold up the look at it: after some seconds signals end the
 * call that waits for it, and the look. They are repeated, since one that arrives just before the
 * call blocks does not interrupt it. */
static volatile sig_atomic_t impatient;

static void
on_alarm(int number)
{
	(void)number;
	impatient = 1;
}

void
doctor_be_patient(long seconds)
{
	const struct sigaction interrupt = {.sa_handler = on_alarm};
	const struct itimerval timer = {.it_value.tv_sec = seconds, .it_interval.tv_usec = 50000};

	impatient = 0;
	sigaction(SIGALRM, &interrupt, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- ACL names, each of which should have a file ---- */

struct acl_visit {
	json_t *findings, *seen; /* seen: the names whose files were looked at */
	const char *root;
};

static void
look_at_name(const struct acl_visit *v, const char *path, const char *name)
{
	char file[2 * PATH_MAX];
	struct stat st;

	if (json_object_get(v->seen, name) != NULL)
		return;
	json_object_set_new(v->seen, name, json_true());
	snprintf(file, sizeof file, "%s/acl/%s", v->root, name);
	if (stat(file, &st) == 0 ? !S_ISREG(st.st_mode) : errno == ENOENT)
		finding_add_detail(v->findings, FINDING_acl_missing, file, "by %s", path);
}

static void
look_at_node(const struct acl_visit *v, const char *path)
{
	static const char *const attributes[] = {"user.ls.acl.read", "user.ls.acl.write",
	                                         "user.ls.acl.change"};
	char name[LIMIT_NAME + 1];

	for (size_t i = 0; i < sizeof attributes / sizeof attributes[0] && !impatient; i++) {
		mounted_path_attribute(path, attributes[i], name, sizeof name);
		if (name[0] != '\0')
			look_at_name(v, path, name);
	}
}

static void
look_in_directory(const struct acl_visit *v, const char *directory)
{
	DIR *d = opendir(directory);
	char path[PATH_MAX + NAME_MAX + 2];
	const struct dirent *entry;

	look_at_node(v, directory);
	for (int n = 0; d != NULL && n < NODES_MOST && !impatient && (entry = readdir(d)) != NULL;
	     n++) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
		look_at_node(v, path);
	}
	if (d != NULL)
		closedir(d);
}

static void
look_at_acls(json_t *findings, const char *root)
{
	const struct acl_visit v = {findings, json_object(), root};
	char acl[PATH_MAX + 8];

	snprintf(acl, sizeof acl, "%s/acl", root);
	look_in_directory(&v, root);
	look_in_directory(&v, acl);
	json_decref(v.seen);
}

/* ---- keys that belong to others, or to which others have access ---- */

/* Root reads every file, and owns the machine's key. */
static void
look_at_key(json_t *findings, const char *path, uid_t owner)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return;
	if (st.st_uid != owner && st.st_uid != geteuid() && st.st_uid != 0)
		finding_add_detail(findings, FINDING_key_foreign, path, "its id is %u",
		                   (unsigned)st.st_uid);
	if ((st.st_mode & 077) != 0)
		finding_add_detail(findings, FINDING_key_open, path, "mode %04o",
		                   (unsigned)(st.st_mode & 07777));
}

void
doctor_key(json_t *findings, const char *path)
{
	look_at_key(findings, path, geteuid());
}

static void
key_in(json_t *findings, const char *directory, const char *name, uid_t owner)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/%s", directory, name) < PATH_MAX)
		look_at_key(findings, path, owner);
}

/* A data directory holds the key of a replica, and the cell's signing key. They belong to the user
 * whose replica it is. */
static void
look_at_directory(json_t *findings, const char *directory)
{
	char cell[PATH_MAX];
	struct stat st;

	if (snprintf(cell, sizeof cell, "%s/cell.conf", directory) >= PATH_MAX ||
	    stat(cell, &st) < 0 || stat(directory, &st) < 0)
		return;
	if ((st.st_mode & 077) != 0)
		finding_add_detail(findings, FINDING_directory_open, directory, "mode %04o",
		                   (unsigned)(st.st_mode & 07777));
	key_in(findings, directory, "replica.key", st.st_uid);
	key_in(findings, directory, "signing.key", st.st_uid);
}

void
doctor_keys(json_t *findings, const struct ctl *ctl)
{
	const char *home = getenv("HOME");

	if (ctl->key != NULL)
		doctor_key(findings, ctl->key);
	key_in(findings, CELL_FILE_DIRECTORY, "key", geteuid());
	if (home != NULL)
		key_in(findings, home, ".config/lsfs/key", geteuid());
}

/* The keys in the directory of a cell file: `up` and `cell create` put them there. */
static void
look_beside(json_t *findings, const char *file)
{
	char copy[PATH_MAX], data[PATH_MAX];
	const char *directory;

	snprintf(copy, sizeof copy, "%s", file);
	directory = dirname(copy);
	key_in(findings, directory, "admin.key", geteuid());
	look_at_directory(findings, directory);
	for (int id = 1; id <= LIMIT_REPLICA_ID; id++)
		if (snprintf(data, sizeof data, "%s/%d", directory, id) < PATH_MAX)
			look_at_directory(findings, data);
}

/* The data directories of this machine's replicas, as the packages place them. */
static void
look_in_state_directory(json_t *findings)
{
	DIR *d = opendir(LOCALSTATEDIR "/lib/lsfs");
	char path[PATH_MAX];
	const struct dirent *entry;

	while (d != NULL && (entry = readdir(d)) != NULL)
		if (entry->d_name[0] != '.' &&
		    snprintf(path, sizeof path, LOCALSTATEDIR "/lib/lsfs/%s", entry->d_name) <
		        PATH_MAX)
			look_at_directory(findings, path);
	if (d != NULL)
		closedir(d);
}

/* ---- mounts ---- */

struct visit {
	json_t *findings, *cells, *mounts;
	const char *path, *file; /* a place, a cell file; NULL: any */
	int n;
};

/* Locks on the mount, or in the directory where it should be. */
struct lock_visit {
	json_t *findings;
	const struct mountinfo *info; /* with the device */
	const char *bare;             /* a directory without its mount; NULL: a mount */
};

static void
add_lock(void *user, const struct local_lock *lock)
{
	const struct lock_visit *v = user;
	char name[PATH_MAX];

	local_lock_name(v->info, lock, name);
	if (v->bare == NULL || mountinfo_lies_in(name, v->bare))
		finding_add_detail(v->findings,
		                   v->bare       ? FINDING_bare_lock
		                   : lock->lease ? FINDING_lease
		                                 : FINDING_directory_lock,
		                   name, "by process %ld", (long)lock->pid);
}

/* A part of a mount counts where the whole is out of sight, or when it is asked for. */
static bool
is_in_question(const struct visit *v, const struct mountinfo *info)
{
	static struct mountinfo whole;

	if (v->path != NULL)
		return mountinfo_lies_in(v->path, info->path);
	return info->whole || !mountinfo_of_device(makedev(info->major, info->minor), &whole);
}

static bool
is_topmost(const struct mountinfo *info)
{
	static struct mountinfo top;

	return mountinfo_at(info->path, &top) && top.id == info->id;
}

/* Notes the first mount of a cell by a user with a key; a further one is a finding. */
static void
note_mount(const struct visit *v, const struct mountinfo *info, const struct run_record *record,
           const char *file)
{
	char which[2 * PATH_MAX + 32];
	const json_t *first;

	snprintf(which, sizeof which, "%ld %s %s", info->user, file, record->key);
	first = json_object_get(v->mounts, which);
	if (first == NULL)
		json_object_set_new(v->mounts, which, json_string(info->path));
	else
		finding_add_detail(v->findings, FINDING_mounted_twice, info->path,
		                   "the first is %s", json_string_value(first));
}

/* With allow_other every user of this machine reaches the cell, and an ACL file that holds `*`
 * gives its rights to each of them. */
static void
look_at_everybody(json_t *findings, const char *root)
{
	char name[LIMIT_NAME + 1];

	mounted_path_attribute(root, "user.ls.acl.write", name, sizeof name);
	if (name[0] != '\0' && acl_names_everybody(root, name))
		finding_add_detail(findings, FINDING_everybody_in, root, "by acl/%s", name);
}

/* A mount answers only its own user, unless others are allowed to use it. */
static void
ask_mount(const struct visit *v, const struct mountinfo *info)
{
	char text[MOUNT_TEXT_SIZE + 1];
	const int error = mount_text(info->path, text);

	if (error != EACCES || info->user == (long)geteuid())
		mount_text_findings(v->findings, info->path, error, text);
	if (error != 0 || !info->whole || strstr(text, "state: safe\n") == NULL)
		return;
	doctor_be_patient(5);
	look_at_acls(v->findings, info->path);
	if (info->others)
		look_at_everybody(v->findings, info->path);
	doctor_be_patient(0);
}

static void
look_at_mount(void *user, const struct mountinfo *info)
{
	static struct run_record record;
	struct visit *v = user;
	struct lock_visit locks = {v->findings, info, NULL};
	char file[PATH_MAX] = ""; /* empty: not known */
	bool alive;

	if (!is_topmost(info) || !is_in_question(v, info))
		return;
	if (run_dir_read(info->path, &record, &alive))
		cell_file_of_mount(&record, file);
	if (v->file != NULL && strcmp(file, v->file) != 0)
		return;
	v->n++;
	ask_mount(v, info);
	local_lock_each(info, INT_MAX, add_lock, &locks);
	if (file[0] == '\0')
		return;
	/* The key is that which the first mount of the cell uses. */
	if (json_object_get(v->cells, file) == NULL)
		json_object_set_new(v->cells, file, json_string(record.key));
	if (alive && info->whole)
		note_mount(v, info, &record, file);
}

int
doctor_mounts(json_t *findings, const char *path, const char *file, json_t *cells)
{
	struct visit v = {findings, cells, json_object(), path, file, 0};

	mountinfo_each(look_at_mount, &v);
	json_decref(v.mounts);
	return v.n;
}

/* ---- mounts that are missing ---- */

/* The device of a directory and the id of its mount, by which local locks in it are found. False:
 * the directory can't be reached. */
static bool
place_of(const char *directory, struct mountinfo *info)
{
	struct statx st;

	if (statx(AT_FDCWD, directory, AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_MNT_ID, &st) < 0)
		return false;
	*info = (struct mountinfo){.id = (int)st.stx_mnt_id,
	                           .major = st.stx_dev_major,
	                           .minor = st.stx_dev_minor};
	snprintf(info->path, sizeof info->path, "%s", directory);
	return true;
}

static bool
is_of_cell(const struct mntent *entry, const char *file)
{
	char located[PATH_MAX], canonical[PATH_MAX];

	cell_file_locate(entry->mnt_fsname, located, sizeof located);
	return mountinfo_canonical(located, canonical) == 0 && strcmp(canonical, file) == 0;
}

static void
look_at_entry(json_t *findings, const struct mntent *entry, const char *mountpoint)
{
	static struct mountinfo info;
	struct lock_visit locks = {findings, &info, mountpoint};

	if (mountinfo_at(mountpoint, &info) && mountinfo_is_cell(&info))
		return;
	finding_add_detail(findings, FINDING_not_mounted, mountpoint, "%s", entry->mnt_fsname);
	if (place_of(mountpoint, &info))
		local_lock_each(&info, INT_MAX, add_lock, &locks);
}

int
doctor_fstab(json_t *findings, const char *path, const char *file)
{
	FILE *table = setmntent(_PATH_MNTTAB, "re");
	char mountpoint[PATH_MAX];
	const struct mntent *entry;
	int n = 0;

	while (table != NULL && (entry = getmntent(table)) != NULL) {
		if ((strcmp(entry->mnt_type, MOUNTINFO_TYPE) != 0 &&
		     strcmp(entry->mnt_type, "lsfs") != 0) ||
		    hasmntopt(entry, "noauto") != NULL ||
		    mountinfo_canonical(entry->mnt_dir, mountpoint) < 0 ||
		    (path != NULL && !mountinfo_lies_in(path, mountpoint)) ||
		    (file != NULL && !is_of_cell(entry, file)))
			continue;
		n++;
		look_at_entry(findings, entry, mountpoint);
	}
	if (table != NULL)
		endmntent(table);
	return n;
}

/* ---- a cell, and the age of a cell file ---- */

json_t *
doctor_ask_replicas(const struct ctl *ctl, const char *file, const struct cell_file *given,
                    bool thorough)
{
	struct cell_file members = *given;
	struct answer answers[LIMIT_REPLICAS];
	struct noise_pair key;
	json_t *all = NULL, *problems;

	if (cell_key(ctl, file, &key) && ask_members(&members, &key) &&
	    ask_replicas(&members, &key, answers))
		all = health_json(&members, answers);
	problems = json_object_get(all, "problems");
	if (all && thorough && members.version > given->version)
		finding_add_detail(problems, FINDING_cell_file_old, file,
		                   "version %" PRIu64 ", the cell's is %" PRIu64, given->version,
		                   members.version);
	if (all && thorough && cell_lacks_key(given, &members, &key))
		finding_add(problems, FINDING_cell_file_keys, file);
	explicit_bzero(&key, sizeof key);
	return all;
}

static bool
look_at_cell(json_t *findings, const struct ctl *ctl, const char *file)
{
	struct cell_file given;
	char why[512];
	json_t *health;

	if (!cell_file_read(file, &given, why, sizeof why)) {
		finding_add_detail(findings, FINDING_cell_file_unreadable, file, "%s", why);
		return true;
	}
	look_beside(findings, file);
	if (cell_file_is_standalone(&given))
		return true;
	if (!cell_has_key(ctl, file)) {
		log_warn("%s: no key: the replicas are not asked (give one with --key)", file);
		return false;
	}
	health = doctor_ask_replicas(ctl, file, &given, true);
	if (health == NULL)
		return false;
	json_array_extend(findings, json_object_get(health, "problems"));
	json_decref(health);
	return true;
}

/* ---- the command ---- */

/* The mounts of this machine, also those that are missing; false after an error message when there
 * are none. */
static bool
look_at_mounts(json_t *findings, const char *path, json_t *cells)
{
	char canonical[PATH_MAX];
	const int rc = path ? mountinfo_canonical(path, canonical) : 0;
	const char *place = path ? canonical : NULL;
	int n;

	if (rc < 0)
		return log_error("%s: %s", path, strerror(-rc));
	n = doctor_mounts(findings, place, NULL, cells);
	n += doctor_fstab(findings, place, NULL);
	if (n == 0 && path)
		log_error("%s: in no mount of lsfs", path);
	else if (n == 0)
		log_error("nothing to look at: no cell is mounted or in %s: give one with --cell",
		          _PATH_MNTTAB);
	return n > 0;
}

/* The cells, each with the key of its mount unless one was given. */
static bool
look_at_cells(json_t *findings, const struct ctl *ctl, json_t *cells)
{
	const char *file;
	json_t *key;
	bool ok = true;

	json_object_foreach(cells, file, key) {
		struct ctl as = *ctl;

		if (!as.key && json_string_length(key) > 0) {
			as.key = json_string_value(key);
			doctor_key(findings, as.key);
		}
		ok = look_at_cell(findings, &as, file) && ok;
	}
	return ok;
}

static bool
look(json_t *findings, const struct ctl *ctl, const char *path)
{
	static struct cell_file cell_file;
	char file[PATH_MAX];
	json_t *cells = json_object();
	bool ok = true;

	if (path != NULL || ctl->cell == NULL) {
		ok = look_at_mounts(findings, path, cells);
	} else if ((ok = cell_find(ctl, file, &cell_file))) {
		json_object_set_new(cells, file, json_string(""));
		doctor_mounts(findings, NULL, file, cells);
		doctor_fstab(findings, NULL, file);
	}
	doctor_keys(findings, ctl);
	look_in_state_directory(findings);
	ok = look_at_cells(findings, ctl, cells) && ok;
	json_decref(cells);
	return ok;
}

static int
run(const struct ctl *ctl, char **argv)
{
	json_t *findings = json_array();
	const bool looked = look(findings, ctl, argv[0]);
	const size_t n = json_array_size(findings);

	if (ctl->json && (looked || n > 0))
		json_text_print(findings);
	else if (n > 0)
		findings_print(findings, SEVERITY_WARNING, "lsctl:", true);
	else if (looked)
		puts("nothing found");
	json_decref(findings);
	if (n > 0)
		return CTL_FAILED;
	return looked ? CTL_OK : CTL_NOTHING_LOOKED_AT;
}

const struct ctl_command doctor_command = {
    "doctor",
    "looks for what commonly goes wrong and says what to do; exit 0 nothing found, 1 found,"
    " 2 could not look",
    {{.words = {"[PATH]"}, .run = run, .unsaid = CTL_NOTHING_LOOKED_AT}},
    NULL,
};
