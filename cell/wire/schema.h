/* The schema: every message, operation, result and stored record of the system, described once.
 *
 * From these lists come the C structs (wire/types.h), the encoder and the total decoder
 * (wire/codec.h), and the printer and the random values of the tests. A field is F(kind, name,
 * argument):
 *
 *   u8 u32 u64 i64   a number, little endian
 *   bytes            u32 length and that many bytes, at most `argument`
 *   text             as bytes, but without NUL bytes
 *   op, entry        as bytes, which hold an encoded operation or log entry payload; only the
 *                    printer looks inside, a reader decodes them when their turn comes
 *   list             u32 count, u32 length, then that many elements of shape `argument`
 *   <shape name>     the fields of that shape in place
 *
 * A decoded struct owns nothing: bytes and lists are views into the frame. */
#ifndef LSFS_WIRE_SCHEMA_H
#define LSFS_WIRE_SCHEMA_H

#include "cell/base/limit.h"

/* The minor version: it grows with every message, operation or field that is added. Peers exchange
 * it in the preamble, and send only messages that the other side's version has. */
enum { WIRE_MINOR = 0 };

/* ---- parts: shapes that are fields of others ---- */

/* clang-format off */
/* The attributes that stat and the generation attributes show, all of them cachable; lock state is
 * not. */
#define WIRE_attr(F)                                                                          \
	F(u64, node, 0)               /* the instance number, which is the inode number too */    \
	F(u64, parent, 0)             /* 0 for the root */                                        \
	F(u8, kind, 0) F(u8, ephemeral, 0) /* kind: enum node_kind */                             \
	F(u64, size, 0)                                                                           \
	F(u64, children, 0)                                                                       \
	F(i64, mtime_ns, 0)           /* since 1970; different for every content generation */    \
	F(i64, ctime_ns, 0)           /* of the last change of any of these, but of children */   \
	F(u64, content_generation, 0)                                                             \
	F(u64, acl_generation, 0)                                                                 \
	F(u64, checksum, 0)           /* of the contents; 0 for a subject that may not read */    \
	F(text, acl_read, LIMIT_NAME) /* names of files in /acl */                                \
	F(text, acl_write, LIMIT_NAME)                                                            \
	F(text, acl_change, LIMIT_NAME)                                                           \
	F(u8, rights, 0)              /* of the subject that requested it: enum right */          \
	F(i64, lock_delay_s, 0)       /* set on the node; -1: not set */                          \
	F(u32, lock_slots, 0)         /* how many share its lock at most; 0: any number */        \
	F(u32, ttl_s, 0)              /* time to live, from each renewal on; 0: it has none */

#define WIRE_child(F) F(u64, node, 0) F(u8, kind, 0) F(text, name, LIMIT_NAME)

/* The place in a lock's queue: the order of arrival at the master of an epoch. */
#define WIRE_ticket(F)                                                                        \
	F(u64, epoch, 0) /* 0: no ticket */                                                       \
	F(u64, place, 0)                                                                          \
	F(u64, code, 0)  /* proves that the cell has issued it, and for which session */

#define WIRE_lock_holder(F)                                                                   \
	F(u64, session, 0)                                                                        \
	F(u64, owner, 0)       /* within the session; chosen by the mount, never used again */    \
	F(u64, acquisition, 0)                                                                    \
	F(u8, mode, 0)         /* enum lock_mode */                                               \
	F(u64, fence, 0)                                                                          \
	F(i64, since_ns, 0)    /* master's wall clock at the grant, for people */                 \
	F(u32, pid, 0)         /* at the session's host; 0: unknown */                            \
	F(text, host, LIMIT_HOST)                                                                 \
	F(i64, slot, 0)        /* of a counting lock; else -1 */                                 \
	F(text, principal, LIMIT_PRINCIPAL)

/* An acquire that waits for its lock, for people. */
#define WIRE_lock_waiter(F)                                                                   \
	F(u64, session, 0) F(u8, mode, 0) /* enum lock_mode */                                    \
	F(i64, since_ns, 0)    /* master's wall clock when it joined this master's queue */       \
	F(u32, pid, 0)         /* at the session's host; 0: unknown */                            \
	F(text, host, LIMIT_HOST)                                                                 \
	F(text, principal, LIMIT_PRINCIPAL)

/* One acquisition of a lock, as a sequencer names it. */
#define WIRE_guard(F)                                                                         \
	F(u64, node, 0)            /* 0: none */                                                  \
	F(u64, lock_generation, 0)                                                                \
	F(u8, mode, 0)             /* enum lock_mode */                                           \
	F(u64, fence, 0)

/* The number of a node, which stands for all that can be cached of it. */
#define WIRE_node_key(F) F(u64, node, 0)

/* A node watched for a user, by the kinds of events (1 << enum watch_event_kind; 0: no more), and
 * WATCH_TREE; of changes above this index of the log, 0: from now on. */
#define WIRE_watch(F)                                                                         \
	F(u64, node, 0) F(u32, mask, 0) F(u64, since, 0) F(text, user, LIMIT_PRINCIPAL)
#define WIRE_watch_state(F) F(u64, node, 0) F(u8, rc, 0) F(u64, after, 0) F(u64, since, 0)    \
	F(u64, generation, 0) F(text, path, LIMIT_PATH) /* OK, STALE, ACCES, FULL; begins after */
#define WIRE_watch_event(F) F(u64, node, 0) F(u8, kind, 0) F(u64, generation, 0)             \
	F(i64, time_ns, 0) F(text, name, LIMIT_PATH) /* wall clock, for people; of a child */

/* A change (enum change_kind) by the entry; generation: of new contents or the lock, else 0. */
#define WIRE_past_change(F)                                                                   \
	F(u64, index, 0) F(i64, time_ns, 0) /* the entry's stamp */ F(u8, kind, 0)            \
	F(u64, node, 0) F(u64, generation, 0) F(text, path, LIMIT_PATH)

/* A command in the log: its session, its time, the operation, and the nodes that it may change. */
#define WIRE_command(F)                                                                       \
	F(i64, stamp_ns, 0) /* the master's wall clock when it proposed: apply reads no clock */  \
	F(u64, session, 0)  /* 0: the master itself */                                            \
	F(u64, number, 0)   /* of the session's request; 0: not a request, no result is kept */   \
	F(u64, below, 0)    /* the client has received the replies to all lower numbers */        \
	F(op, op, LIMIT_ENTRY)                                                                    \
	F(u8, bounded, 0)   /* 1: it changes none but `keys`, in order, or nothing: RC_AGAIN */   \
	F(list, keys, node_key) F(guard, guard, 0) /* while it is stale, nothing: RC_GUARD */     \
	F(text, user, LIMIT_PRINCIPAL) /* of the request; of a grant: of its acquire */           \
	F(u8, handle_rights, 0) /* at the open of a handle, which the master has verified */      \
	F(u8, refused, 0)   /* not RC_OK: the master has refused the request; `op` is empty */

/* One acquire, as a session requests it and as the queue's grant repeats it. */
#define WIRE_acquire(F)                                                                       \
	F(u64, node, 0) F(u64, owner, 0)                                                          \
	F(u64, acquisition, 0) /* identifies it in the session; grows, used only once */          \
	F(u8, mode, 0)                                                                            \
	F(u8, wait, 0)         /* 1: RC_QUEUED and a later grant instead of RC_BUSY_LOCK */       \
	F(i64, delay_s, 0)     /* lock-delay requested with this acquire; -1: none */             \
	F(i64, default_delay_s, 0) /* the mount's, if neither this acquire nor the node has one */ \
	F(u32, pid, 0)                                                                            \
	F(ticket, ticket, 0)   /* presented again after a reconnect; else zeros */

/* A line of a transaction. An operation names its nodes by their paths from the root, as they lead
 * when its turn comes: its own numbers and names of nodes are empty. */
#define WIRE_step(F)                                                                          \
	F(u8, kind, 0)               /* enum step_kind */                                         \
	F(text, path, LIMIT_PATH)                                                                 \
	F(text, new_path, LIMIT_PATH) /* of a rename */                                           \
	F(u64, generation, 0)        /* STEP_GENERATION: of the contents */                       \
	F(guard, guard, 0)           /* STEP_HELD: of the node at the path */                     \
	F(op, op, LIMIT_CONTENTS + 1024) /* STEP_DO */

/* The node of an operation of a transaction, after it. */
#define WIRE_step_done(F)                                                                     \
	F(u32, step, 0)              /* its place among the steps, from 1 on */                   \
	F(u64, node, 0)                                                                           \
	F(u64, generation, 0)        /* of its contents; of its lock, if that was acquired */     \
	F(u64, fence, 0)             /* likewise */

#define WIRE_ballot(F) F(u64, round, 0) F(u8, replica, 0)
#define WIRE_log_entry(F)                                                                     \
	F(u64, slot, 0)                                                                           \
	F(ballot, ballot, 0) /* of the acceptance */                                              \
	F(ballot, origin, 0) /* of the first proposal: never changes */                           \
	F(u64, checksum, 0)  /* of the payload */                                                 \
	F(entry, payload, LIMIT_ENTRY)                                                            \
	F(ballot, before, 0) /* the origin of the preceding entry when it was first proposed */

/* An entry without its payload, as an acceptor reports it: enough to identify its value. */
#define WIRE_slot_header(F)                                                                   \
	F(u64, slot, 0)                                                                           \
	F(ballot, ballot, 0)                                                                      \
	F(ballot, origin, 0)                                                                      \
	F(u64, checksum, 0)                                                                       \
	F(ballot, before, 0)

/* A member of the cell. Ids are never used again. A removed member stays in the list for a while,
 * so that it can learn of its removal. */
#define WIRE_member(F)                                                                        \
	F(u8, id, 0)                                                                              \
	F(u8, role, 0)                    /* enum member_role */                                  \
	F(text, address, LIMIT_ADDRESS)   /* HOST:PORT; empty: a cell in one process */           \
	F(bytes, key, 32)                 /* its public key; empty: likewise */

/* The greatest state of itself that a replica has ever acknowledged. */
#define WIRE_mark(F)                                                                          \
	F(u8, replica, 0)                                                                         \
	F(u64, incarnation, 0)                                                                    \
	F(u64, start, 0)     /* random: of its disk (upper half), of that start (lower half) */    \
	F(ballot, ballot, 0) /* the highest that it promised */                                   \
	F(u64, slot, 0)      /* the highest that it accepted */                                    \
	F(u64, proof, 0)     /* that only this replica can compute */

/* A member's state as the master knows it, for people. */
#define WIRE_progress(F)                                                                      \
	F(u8, id, 0) F(u8, role, 0) F(u8, full, 0) /* its disk is */                              \
	F(u64, match, 0)     /* durable in its log */                                             \
	F(u64, applied, 0)   /* durable in its state.db */                                        \
	F(i64, heard_ms, 0)  /* time since its last message; -1: none yet */                      \
	F(text, address, LIMIT_ADDRESS)

/* For people: a replica's connection to another one, with the span since it was lost (-1: it is
 * up), and a session. */
#define WIRE_peer_link(F) F(u8, id, 0) F(i64, down_ms, 0)
#define WIRE_session_row(F)                                                                   \
	F(u64, session, 0) F(u32, lease_ms, 0)                                                    \
	F(u64, locks, 0)      /* number of locks that it holds */                                 \
	F(i64, heard_ms, 0)   /* time since its last KeepAlive; -1: none yet in this epoch */     \
	F(u8, lasting, 0)     /* 1: it never expires */                                           \
	F(text, principal, LIMIT_PRINCIPAL) F(text, host, LIMIT_HOST)

/* A lock with its holders and waiters, for people. */
#define WIRE_lock_row(F) F(bytes, queue, LIMIT_FRAME - 1024) /* an encoded result `queue` */

/* A setting's value; the codes are those of cell/base/setting.h. */
#define WIRE_setting_value(F) F(u8, setting, 0) F(u64, value, 0)

/* A setting of the cell, for people, with its name, unit and limits. */
#define WIRE_setting_row(F)                                                                   \
	F(text, name, LIMIT_NAME)                                                                 \
	F(text, unit, LIMIT_NAME) /* of all numbers in this row */                                \
	F(u64, value, 0)                                                                          \
	F(u64, longest, 0)        /* may still be promised; above `value`: was lowered */         \
	F(u64, lowest, 0) F(u64, highest, 0) F(u64, standard, 0)

/* A principal of the cell, for people; an ACL file. */
#define WIRE_principal_row(F) F(text, name, LIMIT_PRINCIPAL) F(bytes, key, 32) F(u64, generation, 0)
#define WIRE_acl_file(F) F(text, name, LIMIT_NAME)
/* A limit, for people: of the cell, 1; of the replica that reports it, 0; of a principal, 2. */
#define WIRE_limit_row(F) F(text, name, LIMIT_NAME) F(text, unit, LIMIT_NAME)                 \
	F(u8, whose, 0) F(u64, used, 0) F(u64, most, 0) F(text, principal, LIMIT_PRINCIPAL)

/* Elements of lists, with the LIMIT_ of their number in one. */
#define WIRE_ELEMENTS(E)                                                                      \
	E(child, LISTING) E(lock_holder, HOLDERS) E(lock_waiter, WAITERS) E(step, STEPS)          \
	E(step_done, TRANSACTION) E(command, ENTRY_COMMANDS) E(log_entry, FRAME)                  \
	E(slot_header, FRAME) E(member, MEMBERS) E(mark, MEMBERS) E(progress, MEMBERS)            \
	E(peer_link, MEMBERS) E(session_row, SESSIONS) E(lock_row, FRAME) E(node_key, KEYS)       \
	E(setting_value, SETTINGS) E(setting_row, SETTINGS) E(principal_row, PRINCIPALS)          \
	E(acl_file, FRAME) E(limit_row, LIMITS) E(watch, WATCHES) E(watch_state, WATCHES)         \
	E(watch_event, EVENTS) E(past_change, FRAME)
#define WIRE_PARTS(S) S(attr) S(ticket) S(guard) S(acquire) S(ballot)

/* ---- operations: the requests of a session ---- */

/* Reads, answered by the master from the applied tree. */
#define WIRE_op_lookup(F) F(u64, parent, 0) F(text, name, LIMIT_PATH)
#define WIRE_op_get_attr(F) F(u64, node, 0)
#define WIRE_op_get_contents(F) /* GetContentsAndStat */                                      \
	F(u64, node, 0)                                                                           \
	F(u64, generation, 0) /* of the contents that the client has; 0: none */
#define WIRE_op_get_listing(F) /* one page of a listing */                                   \
	F(u64, node, 0)                                                                           \
	F(text, after, LIMIT_NAME) /* names greater than this one; empty: from the first one on */ \
	F(u32, most, 0)            /* bytes; 0: the maximum of a page */                          \
	F(u64, index, 0)           /* of the first result; 0: this is the first page */           \
	F(u64, next_node, 0)       /* likewise */
#define WIRE_op_get_lock(F) F(u64, node, 0)
#define WIRE_op_get_sequencer(F) /* of a lock that the requesting session holds */           \
	F(u64, node, 0)                                                                           \
	F(u32, pid, 0) /* the newest acquisition of this process; without one, of the session */
#define WIRE_op_get_usage(F) F(u64, node, 0) /* and what bounds it; 0: of the cell alone */
#define WIRE_op_get_queue(F) /* a lock with its holders and waiters */                        \
	F(u64, node, 0)                                                                           \
	F(u8, next, 0) /* 1: of the first node above `node` that has such; 0: of `node` itself */
#define WIRE_op_check_sequencer(F) F(text, sequencer, LIMIT_SEQUENCER)
#define WIRE_op_get_changes(F) F(u64, since, 0) /* of the entries above this log index */

/* Commands, chosen through the log and decided when they are applied. */
#define WIRE_op_create(F)                                                                     \
	F(u64, parent, 0)                                                                         \
	F(text, name, LIMIT_PATH)                                                                 \
	F(u8, kind, 0)                                                                            \
	F(u8, ephemeral, 0) /* 1: the session is recorded as an opener, too */                    \
	F(u8, exclusive, 0) /* 1: refused if the name exists; 0: an existing node is the result */
#define WIRE_op_number(F) /* a file, named by the prefix and the directory's next number */   \
	F(u64, parent, 0) F(text, prefix, LIMIT_NAME) F(u8, ephemeral, 0) /* as of a create */
#define WIRE_op_set_contents(F)                                                               \
	F(u64, node, 0)                                                                           \
	F(u8, guarded, 0)        /* 1: only if the content generation is `generation` */          \
	F(u64, generation, 0)                                                                     \
	F(bytes, contents, LIMIT_CONTENTS)
#define WIRE_op_append(F) F(u64, node, 0) F(bytes, data, LIMIT_CONTENTS)
#define WIRE_op_rename(F) /* of a file; the target keeps its identity */                      \
	F(u64, parent, 0) F(text, name, LIMIT_PATH)                                               \
	F(u64, new_parent, 0) F(text, new_name, LIMIT_PATH)                                       \
	F(u8, no_replace, 0)
#define WIRE_op_delete(F)                                                                     \
	F(u64, parent, 0) F(text, name, LIMIT_PATH)                                               \
	F(u8, kind, 0) /* unlink and rmdir refuse the other kind */
#define WIRE_op_set_acl(F) /* which: enum acl_name */                                         \
	F(u64, node, 0) F(u8, which, 0) F(text, name, LIMIT_NAME)
#define WIRE_op_set_mtime(F) F(u64, node, 0) F(u8, now, 0) F(i64, mtime_ns, 0)
#define WIRE_op_set_lock_delay(F) F(u64, node, 0) F(i64, seconds, 0) /* -1: not set */
#define WIRE_op_set_lock_slots(F) F(u64, node, 0) F(u32, slots, 0) /* 0: any number */
#define WIRE_op_set_ttl(F) F(u64, node, 0) F(u32, seconds, 0) /* of a file; 0: none */
#define WIRE_op_set_quota(F) /* the budget of a directory; which: enum quota_kind */         \
	F(u64, node, 0) F(u8, which, 0) F(u64, most, 0) /* 0: none */
#define WIRE_op_make_ephemeral(F) F(u64, node, 0) /* the session becomes an opener */
#define WIRE_op_open_ephemeral(F) F(u64, node, 0)
#define WIRE_op_close_ephemeral(F) F(u64, node, 0)
#define WIRE_op_acquire(F) F(acquire, acquire, 0)
#define WIRE_op_release(F) /* releases only the lock of this acquire */                       \
	F(u64, node, 0) F(u64, owner, 0) F(u64, acquisition, 0)
#define WIRE_op_cancel(F) /* removes a waiter; undoes a grant: back to the mode before */      \
	F(u64, node, 0) F(u64, owner, 0) F(u64, acquisition, 0)
#define WIRE_op_transaction(F) F(list, steps, step)
#define WIRE_op_end_session(F)                                                                \
	F(u64, session, 0)                                                                        \
	F(u8, cause, 0)              /* enum end_cause */                                       \
	F(u64, epoch, 0)             /* of the master that decided an expiry */                   \
	F(bytes, nonce, LIMIT_NONCE) /* proves the right to end another session */

/* Commands that only a master proposes. */
#define WIRE_op_begin_epoch(F) /* the epoch grows by one */                             \
	F(ballot, ballot, 0)                                                                      \
	F(list, members, member) /* of a new cell; ignored when the tree has its list */          \
	F(list, settings, setting_value) /* of a new cell; others have their default */           \
	F(bytes, admin_key, 32) /* of the administrator of a new cell; empty: in one process */ \
	F(u8, closed, 0)        /* 1: a new cell's root is its administrators' alone */       \
	F(u8, former, 0) F(text, why, LIMIT_WHY) /* for people: the master before; its end */
#define WIRE_op_create_session(F)                                                             \
	F(bytes, nonce, LIMIT_NONCE)                                                              \
	F(text, principal, LIMIT_PRINCIPAL)                                                       \
	F(u64, principal_generation, 0)                                                           \
	F(text, host, LIMIT_HOST)                                                                 \
	F(u8, awaited, 0)                                                                         \
	F(u8, lasting, 0)
#define WIRE_op_settle_epoch(F) F(u64, epoch, 0) /* its barrier has fallen */
#define WIRE_op_await_session(F) /* sets whether a new master waits for the session */   \
	F(u64, session, 0) F(u8, awaited, 0)
#define WIRE_op_finish_session(F) F(u64, session, 0) /* removes the next part of its possessions */
#define WIRE_op_grant(F) /* grants the lock to the head of the queue */                       \
	F(u64, session, 0)                                                                        \
	F(acquire, acquire, 0)
#define WIRE_op_delay_over(F) /* ignored unless the lock is still as the master saw it */ \
	F(u64, node, 0) F(u64, lock_generation, 0)                                                \
	F(u64, began, 0) /* log index of the command that began the delay */
#define WIRE_op_expire(F) /* ignored unless this renewal of the file is the last one */ \
	F(u64, node, 0) F(u64, generation, 0) /* of its contents then */                          \
	F(u64, began, 0) /* log index of the command that renewed it */
#define WIRE_op_unlock(F) /* session 0: any; acquisitions with a later fence stay */          \
	F(u64, node, 0) F(u64, session, 0) F(u64, fence, 0) F(u8, keep_delay, 0)
#define WIRE_op_set_members(F) /* alone in its entry, because paxos reads it, too */    \
	F(u64, version, 0)         /* log index of the list that it replaces; 0: the first one */ \
	F(list, members, member)   /* the whole new list */
#define WIRE_op_set_setting(F) F(u8, setting, 0) F(u64, value, 0)
#define WIRE_op_settle_setting(F) /* all promises from before are over */                    \
	F(u8, setting, 0) F(u64, since, 0) /* log index of the lowering */
#define WIRE_op_lengthen_promise(F) F(u8, setting, 0) F(u64, longest, 0)
#define WIRE_op_add_principal(F) F(text, name, LIMIT_PRINCIPAL) F(bytes, key, 32)
#define WIRE_op_remove_principal(F) F(text, name, LIMIT_PRINCIPAL)
#define WIRE_op_rekey_principal(F) /* of an administrator, which has lost its key */         \
	F(text, name, LIMIT_PRINCIPAL) F(bytes, key, 32)
#define WIRE_op_purge_name(F) /* takes it out of the next ACL files that have it */           \
	F(text, name, LIMIT_PRINCIPAL)
#define WIRE_op_rotate_key(F) /* public signing keys */                                       \
	F(bytes, key, 32) F(bytes, former, 32) F(bytes, lost, 32)
#define WIRE_op_check_digest(F) /* the digest that a quorum of replicas computed at `index` */ \
	F(u64, index, 0) F(u64, digest, 0)
#define WIRE_op_restore(F) /* a new cell from a copy: every counter grows by this */    \
	F(u64, jump, 0)

/* M(code, name, class, slot, result, node). A code, on the wire and in the log, never changes.
 * Classes: READ; COMMAND (through the log); MASTER (a command that no client may send).
 * Slots: the limits that count. An URGENT command gives a lock back: it overtakes other commands,
 * and has limits of its own, so that a session is never kept from it by its other requests.
 * Node: the field that is the operation's node (wire_op_node). */
#define WIRE_OPS(M)                                                                           \
	M(1, lookup, READ, READ, attr, parent)                                                \
	M(2, get_attr, READ, READ, attr, node)                                                \
	M(3, get_contents, READ, READ, contents, node)                                        \
	M(4, get_listing, READ, READ, listing, node)                                          \
	M(5, get_lock, READ, READ, lock, node)                                                \
	M(6, get_sequencer, READ, READ, sequencer, node)                                      \
	M(7, get_usage, READ, READ, usage, node)                                              \
	M(8, get_queue, READ, READ, queue, node)                                              \
	M(9, check_sequencer, READ, READ, checked, none)                                      \
	M(10, get_changes, READ, READ, changes, none)                                         \
	M(32, create, COMMAND, COMMAND, created, parent)                                      \
	M(33, set_contents, COMMAND, COMMAND, attr, node)                                     \
	M(34, append, COMMAND, COMMAND, attr, node)                                           \
	M(35, rename, COMMAND, COMMAND, renamed, parent)                                      \
	M(36, delete, COMMAND, COMMAND, deleted, parent)                                      \
	M(37, set_acl, COMMAND, COMMAND, attr, node)                                          \
	M(38, set_mtime, COMMAND, COMMAND, attr, node)                                        \
	M(39, set_lock_delay, COMMAND, COMMAND, attr, node)                                   \
	M(40, make_ephemeral, COMMAND, COMMAND, attr, node)                                   \
	M(41, open_ephemeral, COMMAND, COMMAND, attr, node)                                   \
	M(42, close_ephemeral, COMMAND, COMMAND, none, node)                                  \
	M(43, acquire, COMMAND, COMMAND, acquired, acquire)                                   \
	M(44, release, COMMAND, URGENT, none, node)                                           \
	M(45, cancel, COMMAND, URGENT, none, node)                                            \
	M(46, end_session, COMMAND, COMMAND, none, none)                                      \
	M(47, set_lock_slots, COMMAND, COMMAND, attr, node)                                   \
	M(48, set_ttl, COMMAND, COMMAND, attr, node)                                          \
	M(49, transaction, COMMAND, COMMAND, transaction, none)                               \
	M(50, set_quota, COMMAND, COMMAND, attr, node)                                        \
	M(51, number, COMMAND, COMMAND, numbered, parent)                                     \
	M(64, begin_epoch, MASTER, COMMAND, none, none)                                       \
	M(65, create_session, MASTER, COMMAND, session, none)                                 \
	M(66, grant, MASTER, COMMAND, acquired, acquire)                                      \
	M(67, delay_over, MASTER, COMMAND, none, node)                                        \
	M(68, set_members, MASTER, COMMAND, none, none)                                       \
	M(69, check_digest, MASTER, COMMAND, none, none)                                      \
	M(70, restore, MASTER, COMMAND, none, none)                                           \
	M(71, set_setting, MASTER, COMMAND, none, none)                                       \
	M(72, settle_setting, MASTER, COMMAND, none, none)                                    \
	M(73, await_session, MASTER, COMMAND, none, none)                                     \
	M(74, settle_epoch, MASTER, COMMAND, none, none)                                      \
	M(75, finish_session, MASTER, COMMAND, none, none)                                    \
	M(76, lengthen_promise, MASTER, COMMAND, none, none)                                  \
	M(77, add_principal, MASTER, COMMAND, none, none)                                     \
	M(78, remove_principal, MASTER, COMMAND, none, none)                                  \
	M(79, rekey_principal, MASTER, COMMAND, none, none)                                   \
	M(80, rotate_key, MASTER, COMMAND, none, none)                                        \
	M(81, purge_name, MASTER, COMMAND, none, none)                                        \
	M(82, expire, MASTER, COMMAND, none, node) M(83, unlock, MASTER, COMMAND, none, node)

/* ---- results: in a reply whose code is RC_OK (acquired: or RC_QUEUED; refused: RC_ACCES) ---- */

#define WIRE_result_none(F)
#define WIRE_result_attr(F) F(attr, attr, 0)
#define WIRE_result_created(F) F(u8, fresh, 0) /* 0: the node existed before */ F(attr, attr, 0)
#define WIRE_result_numbered(F) F(u64, number, 0) F(attr, attr, 0)
#define WIRE_result_contents(F)                                                               \
	F(attr, attr, 0)                                                                          \
	F(u8, same, 0) /* 1: the client has them: they are not sent again */                      \
	F(bytes, contents, LIMIT_CONTENTS)
#define WIRE_result_listing(F)                                                                \
	F(attr, attr, 0)                                                                          \
	F(u64, index, 0)     /* of the log: the names are those at this index */                  \
	F(u64, next_node, 0) /* the number that the next node will get */                         \
	F(u8, more, 0)       /* 1: there are more names */                                        \
	F(list, entries, child) /* sorted bytewise */
#define WIRE_result_lock(F)                                                                   \
	F(u64, lock_generation, 0)                                                                \
	F(u8, state, 0)            /* enum lock_state */                                          \
	F(i64, delay_left_s, 0)    /* rounded up; of a shared lock with holders, too */           \
	F(u64, waiters, 0)                                                                        \
	F(i64, now_ns, 0)          /* the master's wall clock, for "seconds held" */              \
	F(list, holders, lock_holder)                                                             \
	F(u32, ttl_left_s, 0)      /* of the node, rounded up; 0: it has no time to live */
#define WIRE_result_sequencer(F)                                                              \
	F(text, sequencer, LIMIT_SEQUENCER) F(u64, fence, 0)                                      \
	F(i64, slot, 0) /* of a counting lock; else -1 */
#define WIRE_result_queue(F)                                                                  \
	F(u64, node, 0)            /* 0: there is no next one */                                  \
	F(text, path, LIMIT_PATH)  /* empty: of a directory that the subject may not read */      \
	F(u64, lock_generation, 0)                                                                \
	F(u8, state, 0)            /* as in `lock`, like the next two */                          \
	F(i64, delay_left_s, 0)                                                                   \
	F(i64, now_ns, 0)                                                                         \
	F(list, holders, lock_holder)                                                             \
	F(list, waiters, lock_waiter) /* in the order in which they will be served */
#define WIRE_result_checked(F)                                                                \
	F(text, why, LIMIT_WHY) /* the reason why the sequencer is stale; empty: it is valid */   \
	F(guard, guard, 0)      /* the acquisition that it names */
#define WIRE_result_usage(F)                                                                  \
	F(u64, nodes, 0) F(u64, quota_nodes, 0) F(u64, bytes, 0) F(u64, quota_bytes, 0)           \
	F(u64, sessions, 0) F(u64, locks_held, 0) F(u64, applied, 0)                              \
	F(u8, budgets, 0)   /* 1 << enum quota_kind: that quota is a directory's budget */        \
	F(u8, directory, 0) /* 1: the node is one, with this below it, and this budget: */        \
	F(u64, below_nodes, 0) F(u64, below_bytes, 0)                                             \
	F(u64, budget_nodes, 0) F(u64, budget_bytes, 0) /* 0: none */                             \
	F(u64, index, 0)    /* of the log: the last change of it or below it, or later */
#define WIRE_result_renamed(F)                                                                \
	F(u64, source, 0) /* the instance that was removed */                                     \
	F(attr, attr, 0)  /* of the target */
#define WIRE_result_deleted(F) F(u64, node, 0)
#define WIRE_result_acquired(F)                                                               \
	F(u64, lock_generation, 0)                                                                \
	F(u64, fence, 0)                                                                          \
	F(u8, kept, 0)       /* while queued: the mode still held through a conversion, or 0 */   \
	F(ticket, ticket, 0)
#define WIRE_result_session(F) F(u64, session, 0)
#define WIRE_result_refused(F) /* the first right that was missing */                         \
	F(u64, node, 0) F(u8, right, 0) /* enum right */                                          \
	F(text, acl, LIMIT_NAME) /* the node's ACL, which does not give it */

#define WIRE_result_transaction(F)                                                            \
	F(u8, part, 0)       /* enum transaction_part: all of it was done, and nothing else */    \
	F(u32, condition, 0) /* the first one that did not hold, as a step; 0: all did */         \
	F(u32, failed, 0)    /* the operation because of which nothing was done; 0: none */       \
	F(u8, rc, 0)         /* its code; of RC_ACCES, as in `refused`: */                        \
	F(u64, node, 0) F(u8, right, 0) F(text, acl, LIMIT_NAME)                                  \
	F(list, done, step_done)

#define WIRE_result_changes(F) /* whole entries, up to this index; `more`: others follow */  \
	F(u64, compacted, 0) /* changes of entries up to here may be missing; 0: none is */      \
	F(u64, upto, 0) F(u8, more, 0) F(list, changes, past_change)

#define WIRE_RESULTS(R)                                                                       \
	R(none) R(attr) R(created) R(contents) R(listing) R(lock) R(sequencer) R(usage)           \
	R(renamed) R(deleted) R(acquired) R(session) R(queue) R(checked) R(refused) \
	R(transaction) R(numbered) R(changes)

/* ---- the payload of one log entry: commands applied together, or none of them ---- */

#define WIRE_entry(F) F(list, commands, command)

/* ---- messages between a client and a replica ---- */

#define WIRE_msg_open_session(F) /* client: opens a new session, or continues one */    \
	F(u64, session, 0)           /* 0: create one */                                          \
	F(bytes, nonce, LIMIT_NONCE) /* of the session's creation; proves the right to it */      \
	F(text, host, LIMIT_HOST)                                                                 \
	F(u8, caching, 0)          /* 1: the client wants leave to cache */                       \
	F(u8, lasting, 0)          /* 1: a session that is created never expires */               \
	F(u64, epoch, 0)           /* the last one that the client knows */                       \
	F(u64, earlier, 0)         /* with session 0: end this one as expired first; 0: none */   \
	F(bytes, earlier_nonce, LIMIT_NONCE)
#define WIRE_msg_session_opened(F)                                                            \
	F(u8, rc, 0)   /* RC_OK, RC_NOT_MASTER, RC_NO_SESSION (it has ended) or RC_FULL */        \
	F(u64, session, 0)                                                                        \
	F(u64, epoch, 0)                                                                          \
	F(u8, master, 0)      /* replica id of the master as far as known; 0: unknown */          \
	F(text, principal, LIMIT_PRINCIPAL)
#define WIRE_msg_keepalive(F)                                                                 \
	F(u64, session, 0) F(u64, epoch, 0) F(u64, sequence, 0) /* grows; the reply repeats it */ \
	F(u64, generation, 0) /* of the client's cache; 0: it has none, and asks for no leave */  \
	F(u64, heard, 0)      /* the number of the last event that was received in this epoch */
#define WIRE_msg_keepalive_reply(F)                                                           \
	F(u8, rc, 0) F(u64, epoch, 0) F(u64, sequence, 0)                                         \
	F(u32, lease_ms, 0) /* counted from the client's sending of keepalive `sequence` */       \
	F(u32, held_ms, 0)  /* the part of the lease for which the KeepAlive was held */          \
	F(u64, generation, 0) /* of the cache to which this leave is given: */                    \
	F(u32, cache_ms, 0) /* counted as lease_ms; 0: the leave is not renewed */ \
	F(u32, grace_ms, 0) /* the grace period of clients that have none of their own */         \
	F(u8, scarce, 0)    /* 1: little of the quota of bytes is left; 0 in a datagram */
#define WIRE_msg_request(F)                                                                   \
	F(u64, session, 0) F(u64, epoch, 0)                                                       \
	F(u64, number, 0)  /* 1, 2, 3 ... in the order in which requests are to take effect */    \
	F(u64, below, 0)                                                                          \
	F(u8, ordered, 0)  /* 1: every later request of the session takes effect after it */      \
	F(op, op, LIMIT_OPERATION)                                                                \
	F(u64, generation, 0) /* of the client's cache, as in keepalive */                        \
	F(list, dropped, node_key) /* dropped from it for this request; in ascending order */  \
	F(guard, guard, 0) /* RC_GUARD unless this acquisition is held */                         \
	F(text, user, LIMIT_PRINCIPAL) /* acts as PRINCIPAL/USER; empty: as the principal */      \
	F(u8, handle_rights, 0) F(bytes, check, LIMIT_CHECK) /* with the digits of their reply */
#define WIRE_msg_reply(F)                                                                     \
	F(u64, number, 0) F(u8, rc, 0)                                                            \
	F(u64, index, 0)   /* log index at which it took effect or was read */                    \
	F(bytes, result, LIMIT_FRAME - 1024)                                                      \
	F(u64, generation, 0) /* that of the request */                                           \
	F(u64, leave, 0)   /* 0: not to be cached; else the number of this leave, which grows */  \
	F(bytes, check, LIMIT_CHECK) /* of the rights in the result's attributes */
#define WIRE_msg_granted(F) /* RC_OK: the lock was granted to a queued request; else never */ \
	F(u8, rc, 0)                                                                              \
	F(u64, node, 0) F(u64, owner, 0) F(u64, acquisition, 0)                                   \
	F(u64, lock_generation, 0) F(u64, fence, 0)
#define WIRE_msg_redirect(F) /* the sender is not the master, which is `master`; 0: unknown */ \
	F(u64, epoch, 0) F(u8, master, 0)
#define WIRE_msg_status_request(F) /* asked of any replica, without a session */
#define WIRE_msg_status_reply(F)                                                              \
	F(u8, self, 0) F(u8, role, 0) /* enum replica_role */                                     \
	F(u8, master, 0)          /* as far as this replica knows; 0: none */                     \
	F(u64, epoch, 0)          /* of the last mastership that this replica has applied */      \
	F(i64, master_since_ns, 0) /* of the master itself: its wall clock then; else 0 */        \
	F(u64, last, 0)           /* highest slot accepted */                                     \
	F(u64, chosen, 0)         /* highest slot known to be chosen */                           \
	F(u64, applied, 0)        /* highest slot applied */                                      \
	F(u64, sessions, 0) F(u64, locks_held, 0) /* as of `applied` */                           \
	F(u8, condition, 0) F(u8, full, 0) /* enum voting_condition; its disk is */              \
	F(u64, first, 0)          /* lowest slot that its log still has */                        \
	F(u64, digest, 0)         /* of everything applied so far */                              \
	F(u64, longest_step_us, 0) /* of this process, in which it did nothing else */            \
	F(u64, slow_steps, 0)     /* number of steps of more than 10 ms */                        \
	F(u64, disputed, 0)       /* from the master: an entry where states differ; 0: none */    \
	F(list, progress, progress) /* from the master: of all members */                         \
	F(list, links, peer_link)                                                                 \
	F(list, limits, limit_row) F(i64, wall_ns, 0) /* those of the cell as of `applied`; now */ \
	F(text, version, LIMIT_VERSION) F(u32, minor, 0) F(u64, last_backup, 0) /* in s; 0: never */
#define WIRE_msg_members_request(F) /* asked of any replica, without a session */
#define WIRE_msg_members(F) /* also sent without a request, when the list has changed */     \
	F(u64, version, 0) F(list, members, member)
#define WIRE_msg_operate(F) /* an operator's command, without a session, to the master */   \
	F(u8, what, 0) F(u64, id, 0) /* enum operation; replica or session, 0: any */             \
	F(text, address, LIMIT_ADDRESS) /* ADD_REPLICA */                                         \
	F(bytes, key, 32)               /* the new one of the replica or principal */             \
	F(u8, keep_delay, 0)            /* DESTROY_SESSION, UNLOCK: 1: locks keep their delays */ \
	F(text, name, LIMIT_NAME)       /* of the setting or principal */                         \
	F(u64, value, 0) F(u64, seen, 0) /* SET; UNLOCK: node; the newest that was seen */ \
	F(u64, behind, 0)               /* sent again: index applied before the first time */     \
	F(u8, purge, 0)                 /* REMOVE_PRINCIPAL: 1: ACL files lose the name, too */
#define WIRE_msg_operated(F)                                                                  \
	F(u8, rc, 0) F(u64, id, 0) /* of the replica added */                                     \
	F(text, why, LIMIT_WHY) /* the reason of a refusal; empty: see rc */                      \
	F(list, naming, acl_file) /* ADD, REMOVE_PRINCIPAL: ACL files that name it now */
#define WIRE_msg_sessions_request(F) F(u64, after, 0) /* of the next sessions, with greater ids */
#define WIRE_msg_denied(F) /* the last message on a connection, which the replica closes */       \
	F(u8, rc, 0) /* RC_PERM: no principal has this key; RC_ACCES: it has no lasting session;  \
	              * RC_FULL: too many clients; RC_NOT_MASTER: ask the master for the key */
#define WIRE_msg_returned(F) /* all that had to be sent again on this connection was sent */      \
	F(u64, session, 0) F(u64, epoch, 0)
#define WIRE_msg_invalidation(F) /* the client drops what it has cached of these nodes */         \
	F(u64, generation, 0) /* of the client's cache */                                         \
	F(u64, notice, 0)     /* 1, 2, 3 ... in the session and epoch */                          \
	F(u8, everything, 0)  /* 1: and of all others */                                          \
	F(list, nodes, node_key)
#define WIRE_msg_dropped(F) /* client: acknowledges invalidations, and gives leave back */         \
	F(u64, session, 0) F(u64, epoch, 0) F(u64, generation, 0)                                 \
	F(u64, upto, 0)  /* all that notices up to this one name is dropped */                    \
	F(u64, leave, 0) /* of replies up to this leave these nodes, too: */                      \
	F(list, nodes, node_key)
#define WIRE_msg_watch(F) /* client; all 1: in place of earlier ones; heard: as in keepalive */    \
	F(u64, session, 0) F(u64, epoch, 0) F(u8, all, 0) F(u64, heard, 0) F(list, watches, watch)
#define WIRE_msg_watching(F) F(list, states, watch_state) /* answers `watch` */
#define WIRE_msg_events(F) /* a number, from 1 on; of changes up to this index none is missing */ \
	F(u64, first, 0) F(u64, upto, 0) F(list, events, watch_event)
#define WIRE_msg_settings_request(F) /* asked of any replica, without a session */
#define WIRE_msg_settings(F) F(u64, applied, 0) F(list, settings, setting_row)                 \
	F(bytes, keys, 64) /* public signing keys after a rotation: the newest, the one before */
#define WIRE_msg_check_sequencer(F) F(text, sequencer, LIMIT_SEQUENCER) /* without a session */
#define WIRE_msg_sequencer_checked(F) F(text, why, LIMIT_WHY) /* as in the result `checked` */
#define WIRE_msg_sessions(F) F(u8, more, 0) F(list, sessions, session_row)
#define WIRE_msg_locks_request(F) F(u64, after, 0) /* to the master: of nodes greater than it */
#define WIRE_msg_locks(F) F(u8, more, 0) F(list, locks, lock_row)

#define WIRE_msg_principals_request(F) F(text, after, LIMIT_PRINCIPAL) /* of greater names */
#define WIRE_msg_principals(F) /* RC_PERM: only administrators may know them */               \
	F(u8, rc, 0) F(u8, more, 0) F(list, principals, principal_row)

/* ---- messages between replicas (cell/paxos) ---- */

#define WIRE_msg_pre_vote(F) F(ballot, ballot, 0) F(u64, sequence, 0) /* would it be promised? */
#define WIRE_msg_pre_voted(F) F(ballot, ballot, 0) F(u64, sequence, 0) /* it would */
#define WIRE_msg_prepare(F)                                                                   \
	F(ballot, ballot, 0)                                                                      \
	F(u64, first, 0) /* all slots from here on */                                             \
	F(u64, last, 0)  /* the candidate's highest accepted slot */
#define WIRE_msg_promise(F)                                                                   \
	F(ballot, ballot, 0) F(u64, chosen, 0)                                                    \
	F(u64, last, 0)               /* highest accepted slot */                                 \
	F(list, accepted, slot_header) /* as many as fit from the first requested; then repeat */  \
	F(mark, own, 0)                /* of the acceptor, as it is with this */
#define WIRE_msg_accept(F)                                                                    \
	F(ballot, ballot, 0) F(u64, chosen, 0)                                                    \
	F(u64, pass, 0)             /* grows whenever the master goes back to an earlier slot */  \
	F(u64, first, 0)            /* all slots before it were sent before, in this pass */      \
	F(list, named, slot_header) /* from `first` on: slots whose values the acceptor has */ \
	F(list, entries, log_entry) /* the slots after those; both empty: are all there? */
#define WIRE_msg_accepted(F)                                                                  \
	F(ballot, ballot, 0)                                                                      \
	F(u64, upto, 0)      /* every slot of this ballot up to here is durable */                \
	F(mark, own, 0)      /* of the acceptor, as it is with this */
#define WIRE_msg_refused(F) F(ballot, ballot, 0) /* the higher promise, or of the lease */
#define WIRE_msg_heartbeat(F)                                                                 \
	F(ballot, ballot, 0) F(u64, chosen, 0)                                                    \
	F(u64, sequence, 0)   /* answers repeat it: the lease counts from its sending */          \
	F(u32, lease_ms, 0)                                                                       \
	F(u64, trim, 0)       /* no replica needs the log up to here any more */                  \
	F(u64, first, 0)      /* lowest slot that the master still has */                         \
	F(u64, last, 0)       /* highest slot that it has proposed or found */                    \
	F(list, marks, mark)  /* the marks that the master knows */                               \
	F(u64, incarnation, 0) F(u64, start, 0) /* those of the last hello of the receiver */
#define WIRE_msg_heartbeat_reply(F)                                                           \
	F(ballot, ballot, 0) F(u64, sequence, 0)                                                  \
	F(u64, upto, 0)            /* accepted without a hole up to here */                       \
	F(u64, durable, 0)         /* and durable up to here */                                   \
	F(u64, durable_applied, 0)                                                                \
	F(u8, full, 0)             /* its disk is full */                                         \
	F(mark, own, 0)            /* of the acceptor, as it is now */                            \
	F(u32, minor, 0)           /* the minor version that it speaks */                         \
	F(u64, keys, 0)            /* one more than the index of signing keys */
#define WIRE_msg_fetch(F) /* slots from `first` on are missing, though sent in that pass */ \
	F(ballot, ballot, 0) F(u64, pass, 0) F(u64, first, 0)                                     \
	F(u8, whole, 0) /* 1: the slot was named, and its value is not here */
#define WIRE_msg_hand_over(F) /* the master of this ballot has stopped serving */             \
	F(ballot, ballot, 0) F(u64, last, 0) F(u8, to, 0) /* becomes a candidate at once */       \
	F(text, why, LIMIT_WHY) /* for people */

#define WIRE_msg_hello(F) /* from a replica that has started, and waits for a welcome */     \
	F(ballot, ballot, 0)  /* the highest that it promised; round 1, replica 0: none */        \
	F(u64, incarnation, 0) F(u64, start, 0)                                                   \
	F(u64, last, 0)       /* the highest slot that it accepted */                             \
	F(u64, proof, 0)      /* as in a mark */
#define WIRE_msg_welcome(F)                                                                   \
	F(ballot, ballot, 0)  /* the highest that its sender promised; round 1, replica 0: none */ \
	F(u64, incarnation, 0) F(u64, start, 0) /* those of the hello */                          \
	F(u8, verdict, 0)     /* enum welcome */                                                  \
	F(mark, remembered, 0) /* of the replica that sent hello */                               \
	F(u64, version, 0) F(list, members, member) /* the list in force */
#define WIRE_msg_gather(F) /* a candidate lacks the values of these slots */                  \
	F(ballot, ballot, 0) F(u64, first, 0) F(u64, last, 0)
#define WIRE_msg_gathered(F) /* as many as fit */                                             \
	F(ballot, ballot, 0) F(list, entries, log_entry)
#define WIRE_msg_digest(F) F(u64, index, 0) F(u64, digest, 0) /* to the master */
#define WIRE_msg_secret_request(F) /* from a member without the cell's signing key */
#define WIRE_msg_secret(F) /* sent on request, and when the master introduces a key */ \
	F(bytes, key, 64)
#define WIRE_msg_secret_kept(F) F(bytes, key, 32) /* public: the secret one is durable */

/* ---- copies of a state: requested by replicas and, for backups, by administrators ---- */

#define WIRE_msg_state_request(F) /* the next part of a copy of state.db */                   \
	F(u64, copy, 0)         /* 0: make a new copy */                                      \
	F(u64, offset, 0)
#define WIRE_msg_state_part(F)                                                                \
	F(u64, copy, 0)                                                                       \
	F(u64, applied, 0)      /* log index of the state */                                  \
	F(u64, size, 0)         /* of the whole */                                            \
	F(u64, offset, 0)                                                                     \
	F(bytes, data, LIMIT_PART)                                                            \
	F(u64, checksum, 0)     /* of the data */
#define WIRE_msg_state_refused(F) /* there is no part */                                      \
	F(u8, rc, 0)            /* RC_BUSY: repeat the request; RC_NOENT: request a new copy */\
	F(u64, copy, 0)         /* as requested; BUSY: the one being made, or 0: none is, for you */

/* M(code, name, turn). 1..31 and from 96 on: between a client and a replica; 32..63: between
 * replicas; 64..95: copies of the state.
 * Turns on a connection: FIRST, a lease depends on the message, and it refers to no earlier one: it
 * overtakes all others; BULK, it carries data and may be long: short messages must not wait behind
 * it; ORDER, every other. */
#define WIRE_MESSAGES(M)                                                                      \
	M(1, open_session, ORDER) M(2, session_opened, ORDER) M(3, keepalive, FIRST)          \
	M(4, keepalive_reply, FIRST) M(5, request, ORDER) M(6, reply, ORDER)                  \
	M(7, granted, ORDER) M(8, redirect, ORDER) M(9, status_request, ORDER)                \
	M(10, status_reply, ORDER) M(11, members_request, ORDER) M(12, members, ORDER)        \
	M(13, operate, ORDER) M(14, operated, ORDER) M(15, sessions_request, ORDER)           \
	M(16, sessions, ORDER) M(17, settings_request, ORDER) M(18, settings, ORDER)          \
	M(19, denied, ORDER) M(20, returned, ORDER) M(21, check_sequencer, ORDER)             \
	M(22, sequencer_checked, ORDER) M(23, invalidation, ORDER) M(24, dropped, FIRST)      \
	M(25, locks_request, ORDER) M(26, locks, ORDER) M(27, watch, ORDER)                   \
	M(28, watching, ORDER) M(29, events, ORDER) M(30, principals_request, ORDER)          \
	M(31, principals, ORDER)                                                              \
	M(32, prepare, ORDER) M(33, promise, ORDER) M(34, accept, BULK)                       \
	M(35, accepted, ORDER) M(36, refused, ORDER) M(37, heartbeat, ORDER)                  \
	M(38, heartbeat_reply, ORDER) M(39, fetch, ORDER) M(40, hand_over, ORDER)             \
	M(41, hello, ORDER) M(42, welcome, ORDER) M(43, digest, ORDER)                        \
	M(44, secret_request, ORDER) M(45, secret, ORDER) M(46, gather, ORDER)                \
	M(47, gathered, BULK) M(48, secret_kept, ORDER) M(49, pre_vote, ORDER)                \
	M(50, pre_voted, ORDER)                                                               \
	M(64, state_request, ORDER) M(65, state_part, BULK) M(66, state_refused, ORDER)

/* clang-format on */
#endif
