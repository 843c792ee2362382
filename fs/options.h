/* The command line of lsfs, also in the forms of mount(8) and mount.fuse3(8). */
#ifndef LSFS_FS_OPTIONS_H
#define LSFS_FS_OPTIONS_H

#include <stdbool.h>
#include <sys/types.h>

struct options {
	bool help, version;
	bool helper; /* called by mount(8) */
	bool fake;   /* mount -f: everything but the mount itself */
	bool foreground;
	bool debug;      /* log every verdict of mount and client */
	bool replace;    /* take over the mount of a running lsfs, with its options */
	bool configured; /* options of the mount were given */
	bool standalone;
	const char *cell;   /* name of a standalone cell at its first start; NULL: not given */
	char *key;          /* file; NULL: not given; owned */
	const char *source; /* the data directory, a cell file or a cell's name */
	const char *mountpoint;
	int lock_delay_s; /* before a lock of this mount is free, if its session expires */
	int grace_s;      /* for which calls wait while no master can be reached; 0: not given */
	bool lasting;     /* the mount's session never expires */
	bool background;  /* it leaves the terminal before a cell that does not answer does */
	bool commit_at_write; /* each write is committed before it is answered */
	bool quiet;           /* chmod and chown are ignored, not refused */
	mode_t umask;         /* permission bits that are not shown */
	bool allow_other;     /* other local users may use it, each as PRINCIPAL/USER */
	char *kernel;         /* generic options for the kernel's mount, "ro,nodev"; owned */
};

/* Parses argv, which it may reorder and which must outlive the options. The strings are not
 * changed, since ps(1) shows them. False after one line on stderr: wrong usage. */
bool options_parse(struct options *o, int argc, char **argv);
/* Frees the strings that the options own. */
void options_free(struct options *o);
/* Prints the usage on stdout. */
void options_help(void);

#endif
