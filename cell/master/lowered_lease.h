/* Settings that are promises and were lowered: their earlier length counts until all that was
 * promised has ended. */
#ifndef LSFS_MASTER_LOWERED_LEASE_H
#define LSFS_MASTER_LOWERED_LEASE_H

#include "cell/base/setting.h"
#include "cell/master/timer.h"
#include "cell/tree/tree.h"

struct lowered_leases {
	struct timer timers[SETTING_CODES]; /* each expires when what was promised has ended */
	uint64_t since[SETTING_CODES];      /* log index of the lowering */
};

/* Initializes the timers of a new master. */
void m_lowered_init(struct master *m);
/* An epoch begins: each term that began under an earlier master runs from its start. */
void m_lowered_begin(struct master *m);
/* Stops all timers: the mastership is lost. */
void m_lowered_end(struct master *m);
/* The setting was lowered, or is not any more: its index in the note is 0. */
void m_lowered_note(struct master *m, const struct tree_note *note);
/* The timer of the setting has expired. */
void m_lowered_timeout(struct master *m, uint8_t code);

#endif
