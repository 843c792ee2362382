/* Questions to the replicas of a cell: to all of them at once for their status, to any of them for
 * the members or settings, or to the master for an operation. They are asked as the principal that
 * holds `key`. */
#ifndef LSFS_VIEW_ASK_H
#define LSFS_VIEW_ASK_H

#include "cell/config/cell_file.h"
#include "cell/view/answer.h"
#include "cell/wire/noise.h"
#include "cell/wire/types.h"

/* Asks each replica of `cell_file` for its status; answers[i] is that of replicas[i]. Returns after
 * ASK_PATIENCE_MS at the latest. False after an error message when no replica could be asked. */
bool ask_replicas(const struct cell_file *cell_file, const struct noise_pair *key,
                  struct answer answers[LIMIT_REPLICAS]);

/* The same with the key of a replica of this machine, as an operator on its host. */
bool ask_replicas_on_host(const struct cell_file *cell_file, const struct noise_pair *key,
                          struct answer answers[LIMIT_REPLICAS]);

/* Replaces the replicas in *cell_file by the cell's members according to the newest list that a
 * replica sends; unchanged when none answers. They are asked at the addresses in the file, or at
 * those of its `srv`, which has no meaning any more once one has answered. False after an error
 * message when no replica could be asked, or none answers and one refuses: the cell does not know
 * the key, or it is another cell. */
bool ask_members(struct cell_file *cell_file, const struct noise_pair *key);

/* Asks all replicas for the settings; calls `take` with each answer whose state is no older than
 * that of the answers before it. False when no replica answers. */
bool ask_settings(const struct cell_file *cell_file, const struct noise_pair *key,
                  void (*take)(void *user, const struct message *reply), void *user);

/* Asks the current master, and after a fail-over the next one, until it answers with a message of
 * this code, which is passed to `take`. False after an error message, when no replica answers,
 * there was no master for ASK_VACANCY_S, or after ASK_MASTER_S: it is then unknown whether the
 * operation was carried out, and the message says so. */
bool ask_master(const struct cell_file *cell_file, const struct noise_pair *key,
                const struct message *question, enum message_code code,
                void (*take)(void *user, const struct message *reply), void *user);

/* The same with the key of a replica of this machine, as an operator on its host. */
bool ask_master_on_host(const struct cell_file *cell_file, const struct noise_pair *key,
                        const struct message *question, enum message_code code,
                        void (*take)(void *user, const struct message *reply), void *user);

/* The same once, of the only replica in *cell_file, for ASK_PATIENCE_MS. False, without a message:
 * it does not answer, or is not the master. */
bool ask_given_master(const struct cell_file *cell_file, const struct noise_pair *key,
                      const struct message *question, enum message_code code,
                      void (*take)(void *user, const struct message *reply), void *user);

enum {
	ASK_PATIENCE_MS = 2000,
	ASK_VACANCY_S = 30,
	ASK_MASTER_S = 90, /* a session may end a lease of a minute later, and the master be lost */
};

#endif
