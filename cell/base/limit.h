/* Every limit of the system, on one page. A queue, a length or a count that is not bounded here is
 * a mistake: all input is compared with its limit before it is stored. */
#ifndef LSFS_BASE_LIMIT_H
#define LSFS_BASE_LIMIT_H

#include <assert.h>

enum {
	LIMIT_CONTENTS = 256 * 1024, /* bytes of a file; beyond: EFBIG */
	LIMIT_NAME = 255,            /* bytes of one name; beyond: ENAMETOOLONG */
	LIMIT_PATH = 1024,           /* bytes of a path below the cell's root, first slash too */
	LIMIT_CELL_NAME = 64,
	LIMIT_SETTINGS = 64,
	LIMIT_ACL = 64 * 1024, /* bytes of an ACL file; a longer one gives no right */
	LIMIT_GROUPS = 64,     /* ACL files that one looks into, itself included; */
	LIMIT_GROUP_DEPTH = 4, /* and how deep they are nested */
	LIMIT_LIMITS = 64,     /* rows of a status that tell how near limits are */
	CELL_ID = 16, /* bytes of the random number that identifies a cell, fixed at its creation */
	PUBLIC_KEY_BYTES = 32, /* bytes of the public key of a member or principal */
	LIMIT_PRINCIPAL = 64,  /* bytes of a principal's name */
	LIMIT_VERSION = 64,    /* bytes of a program's version */
	LIMIT_HOST = 255,      /* bytes of the host name in a CreateSession */
	LIMIT_CHECK = 16,      /* bytes of a handle's check digits */
	LIMIT_NONCE = 16,      /* bytes of the random number that identifies a CreateSession */
	LIMIT_SEQUENCER = 1024 + 256,

	LIMIT_LISTING = 96 * 1024,    /* children of a directory */
	LIMIT_PAGE = 64 * 1024,       /* bytes of a listing in one reply */
	LIMIT_LOOKED_AT = 4096,       /* changes that one read of the history looks at */
	LIMIT_REMOVED = 1 << 16,      /* removed names that are remembered for listings in pages */
	LIMIT_HOLDERS = 4096,         /* shared holders of one lock */
	LIMIT_TTL_S = 366 * 86400,    /* time to live of a file */
	LIMIT_SLOTS = 64,             /* of a counting lock */
	LIMIT_OPENERS = 4096,         /* opens of one ephemeral file */
	LIMIT_WAITERS = 16384,        /* waiters for one lock */
	LIMIT_SESSION_OPENS = 16384,  /* opens of one session, of all ephemeral files */
	LIMIT_SESSION_LOCKS = 65536,  /* holders of one session, of all locks */
	LIMIT_SESSION_WAITERS = 4096, /* waiters of one session, for all locks */
	LIMIT_ENTRY_COMMANDS = 512,   /* commands in one log entry, which is applied in one step */
	LIMIT_ENDING = 256,     /* locks, opens, directories and kept answers of a session that
	                         * go in one entry when it ends */
	LIMIT_KEYS = 4096,      /* nodes that one command may declare to change */
	LIMIT_TRANSACTION = 64, /* operations of one transaction; as many conditions */
	LIMIT_STEPS = 2 * LIMIT_TRANSACTION + 1, /* all that one is made of, with an `else` */
	LIMIT_TOUCHED = 1024,                    /* nodes that one may touch */
	LIMIT_COPIES = 4096,                     /* nodes that one session may cache */
	LIMIT_WATCHES = 1024,                    /* nodes that one session watches */
	LIMIT_EVENTS = 1024,  /* events of one session that are not acknowledged; then a gap */
	LIMIT_NOTICES = 1024, /* invalidations of one session that are not acknowledged */
	LIMIT_STEP = 12288, /* rows that a replica's step changes, with the frames that it sends */

	LIMIT_IN_FLIGHT = 256, /* commands of one session without a reply; as many reads */
	LIMIT_URGENT = 64,     /* releases and cancels of one session without a reply */
	LIMIT_NUMBERS = 4096,  /* request numbers of a session above its oldest unanswered one */
	LIMIT_DROPPED = 16,    /* nodes that a command names as dropped from its client's cache */
	LIMIT_WINDOW = 4 * 1024 * 1024, /* bytes of one session's commands without a reply; as many
	                                 * of reads, and of releases and cancels */
	LIMIT_QUEUED = 1 << 16,         /* requests that wait in the client for a free slot */
	LIMIT_CACHED = 3584, /* nodes that a client caches; its replies under way make more keys */
	LIMIT_CACHE = 64 * 1024 * 1024, /* bytes of a client's cache */
	LIMIT_CACHE_DROPPED = 4096,     /* nodes of which a client has dropped its copy while
	                                 * earlier replies are under way */
	LIMIT_PRINCIPALS = 4096,        /* principals of a cell */
	LIMIT_PRINCIPAL_SESSIONS = 1024,
	/* Connections of one principal to a replica. After a failure of the network a session may
	 * have three: a dead one that seems alive to the replica, its successor, and the idle
	 * standby. */
	LIMIT_PRINCIPAL_CONNECTIONS = 3 * LIMIT_PRINCIPAL_SESSIONS,
	LIMIT_OPERATOR_CONNECTIONS = 16,            /* of operators with one replica's key */
	LIMIT_PRINCIPAL_WAITERS = 1 << 16,          /* of all its sessions, for all locks */
	LIMIT_PRINCIPAL_WINDOW = 128 * 1024 * 1024, /* bytes of their requests without a reply, with
	                                             * what is kept for the nodes that these touch;
	                                             * as many of frames that have come in part */
	LIMIT_PRINCIPAL_EARLY = 1024 * 1024, /* the latter, of connections without a session */
	LIMIT_UNFINISHED_S = 15,             /* the longest that a frame may stay unfinished */
	LIMIT_SESSIONS = 200000,             /* sessions of a cell */
	LIMIT_REPLICAS = 7,                  /* members of a cell at one time */
	LIMIT_REPLICA_ID = 255,              /* ids are never reused */
	LIMIT_MEMBERS = 64, /* rows of the member list; it keeps the last removed members */
	LIMIT_ADDRESS = LIMIT_HOST + 8,
	LIMIT_WHY = 255,         /* bytes of a human-readable reason */
	LIMIT_PART = 256 * 1024, /* bytes of state.db in one message */

	LIMIT_FRAME = 48 * 1024 * 1024, /* bytes of one message */
	LIMIT_ENTRY = 1024 * 1024,      /* bytes of one log entry */
	/* Bytes of a request's operation: an entry holds it, with the nodes that it declares. */
	LIMIT_OPERATION = LIMIT_ENTRY - 8 * LIMIT_KEYS - 1024,
	LIMIT_UNSENT = 64 * 1024 * 1024, /* bytes unsent on a connection; beyond: it is closed */
	LIMIT_PRINCIPAL_UNSENT = 2 * LIMIT_UNSENT, /* on all of a principal's; beyond: one is */

	LIMIT_LOG_LINES = 1000, /* to the system's log within LIMIT_LOG_WINDOW_S */
	LIMIT_LOG_WINDOW_S = 10,
	LIMIT_LOCK_DELAY_S = 60, /* Chubby, section 2.4: bounds the harm of a faulty client */
	LIMIT_LEASE_MAX_S = 60,

	DEFAULT_LOCK_DELAY_S = 15,
};

static_assert(LIMIT_ENTRY >= LIMIT_CONTENTS + LIMIT_PATH + 4096,
              "an entry holds the largest write");
static_assert(LIMIT_ENTRY_COMMANDS >= LIMIT_TRANSACTION + 1 + LIMIT_STEPS &&
                  LIMIT_OPERATION >= LIMIT_CONTENTS + LIMIT_TRANSACTION * (4 * LIMIT_PATH + 4096),
              "an entry holds a transaction and a grant of each lock before it");
static_assert(LIMIT_WINDOW >= LIMIT_ENTRY, "the largest request fits into an empty window");
static_assert(LIMIT_UNSENT >= LIMIT_WINDOW + LIMIT_IN_FLIGHT * 1024 + LIMIT_FRAME,
              "a session's requests in flight fit on its connection, beside the longest reply");
static_assert(LIMIT_FRAME >= LIMIT_ENTRY, "a frame holds the largest entry");
static_assert(LIMIT_FRAME >= (LIMIT_HOLDERS + LIMIT_WAITERS) * (LIMIT_HOST + LIMIT_PRINCIPAL + 64),
              "a frame holds a lock's holders and waiters");

#endif
