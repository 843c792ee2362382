/* The command line of lsfs, also as mount(8) and mount.fuse3(8) write it. */
#ifndef LSFS_FS_OPTIONS_H
#define LSFS_FS_OPTIONS_H

#include <stdbool.h>

struct options {
	bool help, version;
	bool helper;     /* called by mount(8) */
	bool fake;       /* mount -f: everything but the mount itself */
	bool foreground;
	bool standalone;
	const char *cell;       /* name of a standalone cell at its first start; NULL: not given */
	char *key;              /* file; NULL: not given; owned */
	const char *source;     /* the data directory, a cell file or a cell's name */
	const char *mountpoint;
	int lock_delay_s;
	int grace_s;
	bool commit_at_write;
	bool quiet;
	bool allow_other;
	char *kernel;           /* generic options for the kernel's mount, "ro,nodev"; owned */
};

/* Reads argv, which it may reorder and which must outlive the options; its texts stay as they are,
 * for ps(1). False after one line on stderr: wrong usage. */
bool options_parse(struct options *o, int argc, char **argv);
void options_free(struct options *o);
void options_help(void);

#endif
