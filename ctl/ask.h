/* Asking the replicas of a cell: all of them at once how they are, or any who the members are, or
 * the master for something. All as the principal that holds `key`. */
#ifndef LSFS_CTL_ASK_H
#define LSFS_CTL_ASK_H

#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "cell/wire/types.h"

/* What a master knows of a member. */
struct answer_progress {
	uint8_t id;
	bool full;
	uint64_t match, applied;
	int64_t heard_ms; /* -1: never */
};

/* What became of the question to one replica. */
struct answer {
	bool heard;
	char why[160]; /* it was not, for people */
	struct msg_status_reply status; /* without its list, which is here: */
	struct answer_progress progress[LIMIT_REPLICAS];
	int progress_n;
};

/* Asks each replica of `cell_file` how it is; answers[i] is of its replicas[i]. Returns after
 * ASK_PATIENCE_MS at the latest. False after a line, when nobody could be asked. */
bool ask_replicas(const struct cell_file *cell_file, const struct noise_pair *key,
                  struct answer answers[LIMIT_REPLICAS]);

/* Who says that it is master, of the newest epoch; negative: nobody. */
int answers_master(const struct answer *answers, int n);

/* Puts the members of the cell, as any of its replicas tells them, in the place of those of the
 * cell file; these stay if nobody answers. False after a line, when nobody could be asked. */
bool ask_members(struct cell_file *cell_file, const struct noise_pair *key);

/* Asks all replicas for the settings; `take` is given each answer that is of no earlier state than
 * those before. False when nobody answers. */
bool ask_settings(const struct cell_file *cell_file, const struct noise_pair *key,
                  void (*take)(void *user, const struct message *reply), void *user);

/* Asks the master, whoever that is by then, until it answers with a message of this code, which
 * `take` is given. False after a line that says why, after ASK_MASTER_S at the latest: then it is
 * not known what became of the question. */
bool ask_master(const struct cell_file *cell_file, const struct noise_pair *key,
                const struct message *question, enum message_code code,
                void (*take)(void *user, const struct message *reply), void *user);

enum { ASK_PATIENCE_MS = 2000, ASK_MASTER_S = 30 };

#endif
