/* Asking every replica of a cell how it is, all at once. */
#ifndef LSFS_CTL_ASK_H
#define LSFS_CTL_ASK_H

#include "cell/io/conf.h"
#include "cell/wire/noise.h"
#include "cell/wire/types.h"

/* What became of the question to one replica. */
struct answer {
	bool heard;
	char why[160]; /* it was not, for people */
	struct msg_status_reply status;
};

/* Asks, as the principal that holds `key`, each replica of `conf`; answers[i] is of its
 * replicas[i]. Returns after ASK_PATIENCE_MS at the latest. False after a line, when nobody could
 * be asked. */
bool ask_replicas(const struct conf *conf, const struct noise_pair *key,
                  struct answer answers[LIMIT_REPLICAS]);

/* Who says that it is master, of the newest epoch; negative: nobody. */
int answers_master(const struct answer *answers, int n);

enum { ASK_PATIENCE_MS = 2000 };

#endif
