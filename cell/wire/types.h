/* The C side of the schema: a struct for every shape, the enums that their u8 fields hold, and the
 * tagged unions `struct op`, `struct result` and `struct message`. */
#ifndef LSFS_WIRE_TYPES_H
#define LSFS_WIRE_TYPES_H

#include <stdint.h>
#include "cell/base/bytes.h"
#include "cell/base/rc.h"
#include "cell/wire/schema.h"

enum node_kind { NODE_FILE = 1, NODE_DIRECTORY = 2 };
enum right { RIGHT_READ = 1, RIGHT_WRITE = 2, RIGHT_CHANGE = 4 };
enum acl_name { ACL_READ = 0, ACL_WRITE = 1, ACL_CHANGE = 2, ACL_NAMES = 3 };
enum lock_mode { LOCK_NONE = 0, LOCK_SHARED = 1, LOCK_EXCLUSIVE = 2 };
enum lock_state {
	LOCK_STATE_FREE = 0,
	LOCK_STATE_SHARED = 1,
	LOCK_STATE_EXCLUSIVE = 2,
	LOCK_STATE_DELAYED = 3,
};
/* The role of a replica: elected means chosen by paxos, but not serving (yet, or because its lease
 * has lapsed). */
enum replica_role {
	REPLICA_FOLLOWER = 0,
	REPLICA_CANDIDATE = 1,
	REPLICA_ELECTED = 2,
	REPLICA_MASTER = 3,
};
/* The reasons why a replica may have no vote. */
enum voting_condition {
	CONDITION_VOTING = 0,
	CONDITION_JOINING = 1,   /* not yet welcomed by a majority since its start */
	CONDITION_REPAIRING = 2, /* a part of its log or state was damaged, and is fetched */
	CONDITION_LEARNER = 3,   /* a new member that catches up */
	CONDITION_LOST = 4,      /* its disk holds less than it has acknowledged: no vote */
	CONDITION_EXPELLED = 5,  /* not a member of the cell any more */
	CONDITION_ALONE = 6,     /* has received nothing from a master for long: cut off, or none */
	CONDITION_OUTDATED = 7,  /* the log is written in a later minor version than it speaks */
};
/* The kinds of a quota. */
enum quota_kind { QUOTA_NODES = 0, QUOTA_BYTES = 1, QUOTA_KINDS = 2 };
/* The owner of a limit, in a limit_row. */
enum limit_owner { LIMIT_OF_REPLICA = 0, LIMIT_OF_CELL = 1, LIMIT_OF_PRINCIPAL = 2 };
enum member_role { MEMBER_VOTER = 1, MEMBER_LEARNER = 2, MEMBER_REMOVED = 3 };
enum welcome {
	WELCOME_FINE = 0, /* a member; it checks itself whether it has acknowledged more */
	WELCOME_NO_MEMBER = 2,
};
enum operation {
	OPERATION_ADD_REPLICA = 1,
	OPERATION_REMOVE_REPLICA = 2,
	OPERATION_TRANSFER = 3,
	OPERATION_DESTROY_SESSION = 4,
	OPERATION_SET = 5,
	OPERATION_ADD_PRINCIPAL = 6,
	OPERATION_REMOVE_PRINCIPAL = 7,
	OPERATION_RECOVER_PRINCIPAL = 8, /* on a connection with the key of a replica */
	OPERATION_ROTATE_KEY = 9,
	OPERATION_BACKED_UP = 10, /* a backup was made and verified */
	OPERATION_UNLOCK = 11,
};
/* The format of a numbered file's name: the length of the prefix, the prefix, the number. */
#define NUMBERED_NAME "%.*s%010llu"
/* The lines of a transaction. */
enum step_kind {
	STEP_GENERATION = 1, /* a condition: the file at the path has contents of this generation */
	STEP_ABSENT = 2,     /* a condition: there is nothing at the path */
	STEP_HELD = 3,       /* a condition: the acquisition of the lock at the path is held */
	STEP_DO = 4,
	STEP_ELSE = 5, /* before the operations that are done if a condition does not hold */
};
enum transaction_part { PART_NONE = 0, PART_FIRST = 1, PART_ELSE = 2 };
/* The changes of a node. */
enum change_kind {
	CHANGE_NONE = 0,
	CHANGE_CREATED = 1,
	CHANGE_CONTENTS = 2,
	CHANGE_ATTRIBUTES = 3,
	CHANGE_DELETED = 4,
	CHANGE_LOCK = 5, /* it was acquired */
};
enum end_cause { SESSION_CLOSED = 1, SESSION_EXPIRED = 2, SESSION_DESTROYED = 3 };

/* The events that a session may be told of (Chubby, section 2.5). Those of a node are made by the
 * master, the others by the client. */
enum watch_event_kind {
	EVENT_CONTENTS_MODIFIED = 1,
	EVENT_CHILD_ADDED = 2,
	EVENT_CHILD_REMOVED = 3,
	EVENT_CHILD_MODIFIED = 4, /* its contents or attributes */
	EVENT_HANDLE_INVALID = 5, /* the node was deleted */
	EVENT_LOCK_ACQUIRED = 6,
	EVENT_CONFLICTING_LOCK = 7, /* an acquire waits for a lock that the session holds */
	EVENT_GAP = 8,              /* events of any watched node were left out */
	EVENT_MASTER_FAILED_OVER = 9,
	EVENT_JEOPARDY = 10,
	EVENT_SAFE = 11,
	EVENT_EXPIRED = 12,
};

/* In the mask of a watched directory: also the CHILD_* events of all directories below it, and
 * LOCK_ACQUIRED of all nodes below it, by their paths from it. */
#define WATCH_TREE 1u

/* The node numbers of the root directory, of /acl and of /acl/admin, the first of a new cell. */
#define NODE_ROOT 1
#define NODE_ACL 2
#define NODE_ACL_ADMIN 3

/* A list, which was checked when it was decoded; walk it with wire_next_NAME (wire/codec.h). */
struct wire_list {
	struct bytes packed;
	uint32_t count;
};

#define WIRE_TYPE_u8 uint8_t
#define WIRE_TYPE_u32 uint32_t
#define WIRE_TYPE_u64 uint64_t
#define WIRE_TYPE_i64 int64_t
#define WIRE_TYPE_bytes struct bytes
#define WIRE_TYPE_text struct bytes
#define WIRE_TYPE_op struct bytes
#define WIRE_TYPE_entry struct bytes
#define WIRE_TYPE_list struct wire_list
#define WIRE_TYPE_attr struct attr
#define WIRE_TYPE_ticket struct ticket
#define WIRE_TYPE_ballot struct ballot
#define WIRE_TYPE_acquire struct acquire
#define WIRE_TYPE_guard struct guard
#define WIRE_TYPE_mark struct mark

#define WIRE_MEMBER(kind, name, argument) WIRE_TYPE_##kind name;

#define WIRE_STRUCT(shape, ...)           \
	struct shape {                    \
		WIRE_##shape(WIRE_MEMBER) \
	};
WIRE_PARTS(WIRE_STRUCT)
WIRE_ELEMENTS(WIRE_STRUCT)
WIRE_STRUCT(entry)
#undef WIRE_STRUCT

#define WIRE_STRUCT(code, name, class, slot, result, node) \
	struct op_##name {                                 \
		WIRE_op_##name(WIRE_MEMBER)                \
	};
WIRE_OPS(WIRE_STRUCT)
#undef WIRE_STRUCT

#define WIRE_STRUCT(name)                       \
	struct result_##name {                  \
		WIRE_result_##name(WIRE_MEMBER) \
	};
WIRE_RESULTS(WIRE_STRUCT)
#undef WIRE_STRUCT

#define WIRE_STRUCT(code, name, turn)        \
	struct msg_##name {                  \
		WIRE_msg_##name(WIRE_MEMBER) \
	};
WIRE_MESSAGES(WIRE_STRUCT)
#undef WIRE_STRUCT

enum op_code {
#define X(code, name, class, slot, result, node) OP_##name = code,
	WIRE_OPS(X)
#undef X
};

enum op_class { OP_CLASS_READ, OP_CLASS_COMMAND, OP_CLASS_MASTER };

/* The kinds of requests whose number and bytes in flight are limited, each by itself. */
enum slot_kind { SLOT_COMMAND, SLOT_READ, SLOT_URGENT, SLOT_KINDS };

enum message_turn { TURN_ORDER, TURN_FIRST, TURN_BULK };

enum result_kind {
#define X(name) RESULT_##name,
	WIRE_RESULTS(X)
#undef X
};

enum message_code {
#define X(code, name, turn) MSG_##name = code,
	WIRE_MESSAGES(X)
#undef X
};

struct op {
	enum op_code code;
	union {
#define X(code, name, class, slot, result, node) struct op_##name name;
		WIRE_OPS(X)
#undef X
	};
};

/* The operation of that name, with these fields. */
#define OPERATION(name, ...) ((struct op){.code = OP_##name, .name = {__VA_ARGS__}})

struct result {
	enum result_kind kind;
	union {
#define X(name) struct result_##name name;
		WIRE_RESULTS(X)
#undef X
	};
};

struct message {
	enum message_code code;
	union {
#define X(code, name, turn) struct msg_##name name;
		WIRE_MESSAGES(X)
#undef X
	};
};

/* The message of that name, with these fields. */
#define MESSAGE(name, ...) ((struct message){.code = MSG_##name, .name = {__VA_ARGS__}})

#endif
