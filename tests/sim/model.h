/* What the cell should do, fed with the log, and compared with what clients are told. */
#ifndef LSFS_SIM_MODEL_H
#define LSFS_SIM_MODEL_H

#include <string.h>

#include "cell/config/key_file.h"
#include "cell/replica/divergence.h"
#include "cell/tree/tree.h"
#include "cell/wire/types.h"
#include "tests/sim/disk.h"
#include "tests/sim/history.h"

struct holder {
	uint64_t session, owner;
	struct taken {
		uint64_t acquisition, generation, fence;
		enum lock_mode mode;
		int64_t at; /* when that was decided */
	} now, earlier;     /* earlier: what a conversion found, if not 0 */
	int64_t delay_s;
	int slot; /* the lowest that was free; -1: none was */
	uint32_t pid;
};

struct version {
	uint64_t index, generation;
	const struct record *by; /* the request that made it; NULL: none did */
	struct bytes contents;
};

/* What whoever watches a node is told: of a name in the directory, or of the lock; who watches the
 * tree of the root, of both anywhere, by their paths. */
struct happening {
	enum watch_event_kind kind;
	uint64_t generation; /* of the lock */
	int64_t at;          /* when an acquisition was decided */
	uint64_t parent;     /* in which the name is */
	char name[4 * NAME_ROOM];
};

struct happenings {
	struct happening *all;
	size_t n, room;
};

struct item {                          /* a node of the model */
	uint64_t node, parent, became; /* became: the ephemeral file that it was renamed to */
	char name[NAME_ROOM];
	enum node_kind kind;
	bool ephemeral;
	int64_t marked;      /* a permanent file became ephemeral: when */
	uint64_t born, died; /* indices; died 0: alive */
	const struct record *died_by;
	uint64_t creator; /* session, of an ephemeral directory without a child */
	struct acl_change {
		uint64_t index;
		unsigned which;
		char name[NAME_ROOM];
	} * acls;
	size_t acls_n, acls_room;
	struct version *versions;
	size_t versions_n, versions_room;
	struct opener {
		uint64_t session, opened;
	} * openers;
	size_t openers_n, openers_room;
	struct holder *holders;
	size_t holders_n, holders_room;
	uint64_t lock_generation, last_fence;
	enum lock_mode delay_mode; /* 0: no delay */
	uint64_t delay_began, delay_generation;
	int64_t delay_s, delay_from; /* virtual time of the expiry's first apply */
	uint64_t lock_changed, mtime_changed, ctime_changed; /* indices */
	uint64_t granted;                                    /* index: by a grant, the last time */
	uint64_t named; /* index: of the last grant of it, taken or refused */
	int64_t mtime_ns, ctime_ns;
	int64_t lock_delay_s;         /* set on the node; -1: not */
	uint32_t ttl_s;               /* time to live; 0: none */
	uint64_t budget[QUOTA_KINDS]; /* of a directory; 0: none */
	uint64_t ttl_began;           /* index of its last renewal, */
	int64_t ttl_from;             /* and virtual time of that */
	uint64_t next_number;         /* of a directory: that of the next name with a number */
	uint32_t slots;               /* of a counting lock; 0: it does not count */
	bool slot_delayed[LIMIT_SLOTS];
	struct happenings happened;
	struct unlocked { /* acquisitions that an operator has ended */
		uint64_t session, acquisition;
		int64_t at;
	} * unlocked;
	size_t unlocked_n, unlocked_room;
};

struct name_change {
	uint64_t index, parent, node;
	const struct record *by; /* likewise */
	char name[NAME_ROOM];
}; /* node 0: gone */

static inline bool
model_named(const char name[NAME_ROOM], struct bytes as)
{
	return as.len < NAME_ROOM && memcmp(name, as.data, as.len) == 0 && name[as.len] == '\0';
}

struct model_session {
	uint64_t id;
	bool alive, expired; /* it has ended, as expired */
	bool awaited;        /* a new master has to wait for it */
	bool lasting;        /* it never expires */
	bool outstanding;    /* and it has not returned to this one */
	bool given_up;       /* its client has asked for another one */
	uint8_t nonce[LIMIT_NONCE];
	char principal[LIMIT_PRINCIPAL + 1];
	uint64_t unowned; /* where in the log that was removed; 0: it was not */
};

struct past { /* a change that an entry has made */
	uint64_t index, node, generation;
	enum change_kind kind;
	int64_t stamp_ns;
};

struct model {
	uint64_t applied, epoch, next;
	int64_t applied_at; /* the last entry */
	int64_t stamp_ns;   /* of the command that is decided, and whose it is */
	const struct record *by;
	int64_t epoch_from; /* virtual time of its first apply */
	struct signing_keys {
		unsigned rotations;
		int64_t at; /* the last time */
		uint8_t newest[SIGN_PUBLIC], former[SIGN_PUBLIC];
	} keys;
	struct item **items;
	size_t items_n, items_room;
	struct item **acl_files; /* those in /acl that there ever were */
	size_t acl_files_n, acl_files_room;
	struct model_name {
		char text[LIMIT_PRINCIPAL + 1];
		uint64_t generation;
	} * principals; /* beside the administrator that every cell has */
	size_t principals_n, principals_room;
	struct name_change *names;
	size_t names_n, names_room;
	struct model_session *sessions;
	size_t sessions_n, sessions_room;
	uint64_t *digests, *slices, *sums; /* of the trees, and of the payloads; by index */
	size_t digests_room, slices_room, sums_room;
	struct agreed_place { /* the last entries at which digests are told */
		uint64_t index, epoch;
		int64_t at;
		bool followed; /* most voters come to it entry by entry */
		bool told;     /* the log has it */
	} agreed[DIVERGENCE_KEPT];
	bool awaits;            /* a session was outstanding as the epoch began */
	uint64_t settled;       /* the last epoch whose barrier is known to have fallen, */
	uint64_t settled_index; /* and the entry that says so */
	int64_t lapsed_before;  /* what was waited for then has not come back in its time */
	uint64_t last_fence;
	struct {
		struct past *all;
		size_t n, room;
		int64_t newest_ns;             /* the greatest stamp of any command */
		uint64_t least_s, least_bytes; /* that were ever set for the history */
	} past;
	struct happenings tree; /* the first `tree_settled` of them by their paths */
	size_t tree_settled;
	size_t ended;             /* pieces of an ending session, in the command that is decided, */
	struct footprint changed; /* and the nodes of which clients may see that it changed them */
};

void model_init(struct sim *s);
void model_free(struct model *m);
/* The run ends. */
void model_check_end(struct sim *s);
/* The next entry of the log, as the first replica applied it. */
void model_apply(struct sim *s, uint64_t index, struct bytes payload);
struct item *model_item(struct model *m, uint64_t node);
struct item *model_child(struct model *m, uint64_t parent, struct bytes name);
bool model_alive(const struct model *m, uint64_t session);
const char *model_principal(const struct model *m, uint64_t session, uint64_t index);
void model_delete(struct sim *s, struct item *it, uint64_t index);

/* For its parts: is it there; its newest version; a new one, and the version that it begins with or
 * gets; the name of a node is another one's, or nobody's, from this index on. */
bool model_item_alive(const struct item *it);
const struct version *model_latest(const struct item *it);
struct item *model_add_item(struct model *m, uint64_t index, uint64_t parent, struct bytes name,
                            enum node_kind kind);
void model_add_version(struct model *m, struct item *it, uint64_t index, struct bytes owned);
void model_name_changed(struct model *m, uint64_t index, const struct item *it, uint64_t node);
void model_free_item(struct item *it);
/* Decides the command, which is permitted and declared; `want` gets the answer that is expected. */
void model_decide(struct sim *s, uint64_t index, const struct command *c, const struct op *op,
                  struct outcome *want);
/* Something happened to the item, and is an event of it, and of the tree of the root. */
void model_happened(struct model *m, struct item *it, const struct happening *h);
/* Something happened to the item, and is an event of its directory. */
void model_child_event(struct model *m, const struct item *it, enum watch_event_kind kind);
bool model_has_children(const struct model *m, const struct item *it);

/* ---- model_changes.c ---- */

struct host;

/* The entry that is decided has changed the node; a command has this stamp; a setting is set. */
void model_past(struct model *m, enum change_kind kind, uint64_t node, uint64_t generation);
void model_past_stamped(struct model *m, int64_t stamp_ns);
void model_past_setting(struct model *m, uint8_t code, uint64_t value);
/* The history of a replica's tree. */
void model_check_past(struct sim *s, const struct host *n, const struct tree *t);
/* No replica can have forgotten any of the changes. */
bool model_past_is_whole(const struct model *m);

/* ---- agreed.c ---- */

/* An entry is applied; the log has the digest of one; the run ends. */
void agreed_applied(struct sim *s, uint64_t index);
void agreed_told(struct sim *s, uint64_t index);
void agreed_check_end(struct sim *s);

/* ---- model_sessions.c ---- */

/* The commands on sessions. */
void model_begin_epoch(struct sim *s, const struct op_begin_epoch *op);
void model_create_session(struct sim *s, const struct op_create_session *op);
enum rc model_end_session(struct sim *s, uint64_t index, const struct command *c,
                          const struct op_end_session *op);
void model_finish_session(struct sim *s, uint64_t index, const struct command *c, uint64_t id);
/* An ephemeral file is opened; closed, wherever renames have brought it: false when the session has
 * not opened it. */
void model_open(struct item *it, struct opener o);
bool model_close(struct sim *s, uint64_t index, uint64_t session, uint64_t opened);
/* The living item that the session has opened by this number; NULL: none. */
struct item *model_opened(struct model *m, uint64_t session, uint64_t opened);

/* ---- declared.c ---- */

/* Does the command declare all nodes that it would change now? And all that the deletion of the
 * item changes? */
bool declared(struct sim *s, const struct command *c, const struct op *op);
bool declared_deletion(struct sim *s, const struct command *c, const struct item *it);
/* Is the node, or KEY_RIGHTS, among those that it declares? */
bool declared_key(const struct command *c, uint64_t key);

/* ---- model_transactions.c ---- */

/* All of the operations of one part, or nothing; on names in the root. */
void model_transaction(struct sim *s, uint64_t index, const struct command *c,
                       const struct op_transaction *o, struct outcome *want);
/* Notes what a client is told, if it is of a transaction; is that what is expected? */
void model_transaction_told(struct outcome *got, const struct result *result);
void model_check_transaction(struct sim *s, const struct record *r);
bool model_transaction_declared(struct sim *s, const struct command *c,
                                const struct op_transaction *o);

/* ---- unlocks.c ---- */

/* An operator's command. */
void unlocks_apply(struct sim *s, uint64_t index, const struct op_unlock *op);
/* The operator is told of success. */
void unlocks_check(struct sim *s, uint64_t node, uint64_t session, uint64_t fence);
/* True if the session has lost this acquisition by one. */
bool unlocks_has(struct sim *s, uint64_t node, uint64_t session, uint64_t acquisition);
/* Has an operator taken the lock from the session since then? */
bool unlocks_since(const struct item *it, uint64_t session, int64_t at);

/* ---- model_files.c ---- */

/* The commands on files and directories; `want` gets the answer that the model expects. */
void model_create(struct sim *s, uint64_t index, uint64_t session, const struct op_create *op,
                  struct outcome *want);
void model_number(struct sim *s, uint64_t index, uint64_t session, const struct op_number *op,
                  struct outcome *want);
void model_set_contents(struct sim *s, uint64_t index, const struct op_set_contents *op,
                        struct outcome *want);
void model_append(struct sim *s, uint64_t index, const struct op_append *op, struct outcome *want);
void model_rename(struct sim *s, uint64_t index, const struct op_rename *op, struct outcome *want);
void model_delete_file(struct sim *s, uint64_t index, const struct op_delete *op,
                       struct outcome *want);
void model_set_attribute(struct sim *s, const struct op *op, struct outcome *want);
/* A file whose time to live is over; does the command name the last renewal? */
void model_expire(struct sim *s, uint64_t index, const struct op_expire *op);
bool model_is_over(struct model *m, const struct op_expire *op);
/* Ephemeral files: made, opened, closed. */
void model_open_or_close(struct sim *s, uint64_t index, uint64_t session, const struct op *op,
                         struct outcome *want);

/* What an answer shows of the item. */
void model_wrote(const struct item *it, struct outcome *want);

/* ---- model_budgets.c ---- */

/* Do the budgets allow so much more in the directory? What comes `from` a place below one of them
 * is not more there; NULL: it is new. */
bool model_budgets_allow(struct model *m, const struct item *directory, const struct item *from,
                         uint64_t nodes, size_t bytes);
/* The same of contents that become so long. */
bool model_budgets_allow_length(struct model *m, const struct item *it, const struct item *from,
                                size_t len);
/* At the end: is what is below each directory counted, and is its budget the one that was set? */
void model_check_usage(struct sim *s, const struct tree *t, uint64_t session);

/* ---- model_rights.c ---- */

/* A new item has the ACL names of that one, or the root's; a new cell its ACL files. */
void model_inherit_acls(struct model *m, struct item *it, uint64_t index, const struct item *from);
void model_first_acls(struct model *m);
/* Did the subject have one of these rights at that index? */
bool model_has_right(struct sim *s, const struct item *it, uint64_t index, uint64_t session,
                     struct bytes user, unsigned rights);
/* Is the subject an operator now? */
bool model_is_operator(struct sim *s, uint64_t session, struct bytes user);
/* May the command take effect now? The grant of a lock? */
bool model_permits(struct sim *s, const struct command *c, const struct op *op);
bool model_permits_grant(struct sim *s, const struct command *c, const struct op_grant *op);
/* After a command: whoever has lost the right to a lock does not wait for it any more. */
void model_rights_changed(struct sim *s, const struct op *op);
enum rc model_set_acl(struct sim *s, struct item *it, const struct op_set_acl *op);
/* Would the ACL file lose lines with the principal's name? */
bool model_loses_name(const struct item *it, struct bytes principal);
/* ACL files lose them. */
void model_purge_name(struct sim *s, uint64_t index, struct bytes principal);
/* The commands on principals: the sessions of one that is removed have no rights any more. */
void model_add_principal(struct model *m, uint64_t index, struct bytes name);
/* May a session be created for it, that was proposed while it had this generation? */
bool model_owns(const struct model *m, struct bytes name, uint64_t generation);
size_t model_sessions_alive(const struct model *m);
/* One that lives, and whose principal was removed; 0: there is none. */
uint64_t model_unowned_session(const struct model *m);
void model_remove_principal(struct model *m, struct bytes name);
void model_end_rights(struct model *m, struct bytes name);
/* True if the node may be neither deleted nor renamed. */
bool model_needs(struct model *m, const struct item *it);
/* Would an administrator be left? */
bool model_keeps_admin(const struct model *m, const struct item *it, struct bytes contents);
/* An acquire was refused before the log: did its subject have no right then? */
void model_check_refused(struct sim *s, const struct record *r);
/* An acquire was answered that its node is gone: is that so? */
void model_check_gone(struct sim *s, const struct record *r);
/* Was the read answered as its subject's rights are? */
void model_check_rights(struct sim *s, const struct record *r, const struct item *it,
                        const struct result *result);

/* ---- signing_keys.c ---- */

/* The cell's first key: its public half, and the files of a member that has only that. */
const uint8_t *signing_keys_public(void);
void signing_keys_first(struct key_files *files);
/* The keys in the replica's data directory. */
void signing_keys_identify(const struct host *n, struct identity *identity);
/* These are written. */
void signing_keys_check_written(struct sim *s, const struct host *n, const struct sign_keys *keys);
void signing_keys_decide(struct sim *s, const struct op_rotate_key *op);
/* The cell file of a new replica names them, which its operator has asked for. */
void signing_keys_name(const struct sim *s, struct host *n);
void signing_keys_check_end(struct sim *s);

/* ---- outstanding.c ---- */

/* An epoch begins. */
void outstanding_begin(struct model *m);
/* A session may cache or wait from now on, or not any more; or the barrier has fallen. */
void outstanding_decide(struct sim *s, const struct op *op);
/* A waiter that comes back is told that it waits: but its place has lapsed, and counts for nothing
 * under the next master yet. */
bool outstanding_unclaimed(const struct sim *s, const struct item *it);
bool outstanding_lapsed(struct sim *s, const struct record *r);
/* A machine's client sends this. */
void outstanding_frame(struct sim *s, int machine, struct bytes frame);
/* A command takes effect: has everybody returned who may have cached what it changes? */
void outstanding_check(struct sim *s, const struct op *op);
/* At the end the log says of the last epoch, too, that its barrier has fallen. */
void outstanding_check_end(struct sim *s);

/* ---- reads.c ---- */

void model_check_read(struct sim *s, const struct record *r, const struct result *result);
/* Compares the locks of a tree with the model's, if it is as new; the end's tree, item by item. */
void model_check_locks(struct sim *s, const struct tree *t);
void model_check_tree(struct sim *s, const struct tree *t);

/* ---- locks.c ---- */

/* The commands on locks; `want` gets the answer that the model expects. */
void locks_acquire(struct sim *s, uint64_t index, uint64_t session, const struct acquire *a,
                   struct outcome *want);
void locks_give_back(struct sim *s, uint64_t index, uint64_t session, const struct op *op,
                     struct outcome *want);
/* The first of the session's owners that hold it, by an acquisition with this fence or an earlier
 * one, lets go; false: none holds it. */
bool locks_session_ends(struct sim *s, struct item *it, uint64_t index, uint64_t session,
                        uint64_t fence, bool expired);
void locks_delay_over(struct sim *s, const struct op_delay_over *op);
void locks_took(struct sim *s, uint64_t index, uint64_t session, const struct acquire *by,
                const struct outcome *want);
void locks_granted(struct sim *s, uint64_t index, const struct command *c,
                   const struct op_grant *op);
/* Does the session's owner hold it by that acquisition? */
/* When the owner got the lock, if another one waited for it then, and still does; else INT64_MAX.
 */
int64_t locks_blocked_since(const struct sim *s, const struct item *it, uint64_t session,
                            uint64_t owner);
bool locks_has(const struct item *it, uint64_t session, const struct acquire *a);
/* Does the item's lock forbid this subject to delete it, or to rename it to another name? */
bool locks_keep(struct sim *s, const struct item *it, uint64_t session, struct bytes user);
/* Is the acquisition that the guard names not held any more? */
bool locks_guard_stale(struct sim *s, const struct guard *g);

#endif
