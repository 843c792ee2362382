#include "ctl/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "ctl/cell_status.h"
#include "ctl/command_group.h"
#include "ctl/ctl.h"
#include "ctl/holder.h"

enum {
	RESERVE_S = 1, /* from killing the command until the lock can be granted to others */
	WARNING_S = 5, /* from SIGTERM to SIGKILL */
	/* From the end of the lease to the freezing: the mount knows then that the session is in
	 * jeopardy, and lets the calls go on that are interrupted by the freezing. */
	FREEZE_AFTER_MS = 50,
	LATE_MS = 500,     /* of the timer: this process did not run */
	SILENCE_MS = 1000, /* of a wait for the lock, before its reason is printed */
	END_EVERY_MS = 10,
	UNDECIDED = -1,
};

enum state { ACQUIRING, STARTING, RUNS, ENDED };

struct supervisor {
	const struct lock_options *l;
	struct earlier_try earlier;
	int error; /* for which the lock was not acquired, and which may pass */
	enum state state;
	pid_t holder, command; /* holder 0: it has ended */
	struct command_group group;
	int unkilled; /* processes of it, or of that of the try before, that are another user's */
	int orders, reports; /* to and from the holder; reports -1: the mount's daemon has ended */
	int signals, timer;
	sigset_t watched, before; /* the signals read from `signals`; the command's signal mask */
	span_t delay;
	bool lasting;   /* the lock stays with the session until an operator ends it */
	mono_t tell_at; /* when the reason of a wait is printed; MONO_NEVER: not, or done */
	mono_t lease_end;
	mono_t armed; /* for when the timer is set */
	bool warned;
	struct health_check check;
	bool given_up;      /* the command is of no use */
	mono_t given_up_at; /* it gets no more time then; MONO_NEVER: it is of use, or was killed */
	bool told_to_end;   /* by a signal */
	mono_t hangup_ends; /* until then an end of the command is that of a hangup */
	int command_code;
	int result; /* the exit code, or UNDECIDED */
};

/* ---- the deadline ---- */

/* When the command must be killed. The master counts the lock-delay from the session's expiry,
 * which is later than the end of our own lease. A lock-delay too short for a warning is not used:
 * then the lease's end is the time. A lasting session is waited for as long as its mount lives. */
static mono_t
kill_time(const struct supervisor *s)
{
	if (s->state == ACQUIRING)
		return MONO_NEVER;
	if (s->lasting && s->reports >= 0)
		return MONO_NEVER;
	if (s->lasting || s->delay.ns < span_s(WARNING_S + RESERVE_S + 1).ns)
		return s->lease_end;
	return mono_add(s->lease_end, (span_t){s->delay.ns - span_s(RESERVE_S).ns});
}

static mono_t
warning_time(const struct supervisor *s)
{
	mono_t end = kill_time(s);

	if (s->state != RUNS || s->warned || s->group.frozen || end.ns == s->lease_end.ns)
		return MONO_NEVER;
	return mono_add(end, (span_t){-span_s(WARNING_S).ns});
}

/* When the command must be frozen: the session is in jeopardy when its lease has ended. */
static mono_t
freeze_time(const struct supervisor *s)
{
	if (s->state != RUNS || !s->l->freeze || s->group.frozen)
		return MONO_NEVER;
	return mono_add(s->lease_end, span_ms(FREEZE_AFTER_MS));
}

/* The first of these. */
static mono_t
verdict_time(const struct supervisor *s)
{
	return mono_min(mono_min(kill_time(s), warning_time(s)), freeze_time(s));
}

/* Sets the timer, on CLOCK_BOOTTIME: it also counts while the machine is suspended, so the timer
 * expires at once on resume. */
static void
arm(struct supervisor *s)
{
	mono_t next = mono_min(verdict_time(s), s->tell_at);
	struct itimerspec at = {0};

	if (s->state == RUNS)
		next = mono_min(next, mono_min(s->check.due, s->given_up_at));
	if (!mono_is_never(next))
		at.it_value = (struct timespec){.tv_sec = next.ns / 1000000000,
		                                .tv_nsec = next.ns % 1000000000};
	s->armed = next;
	timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Errors are ignored: the end of the holder is noticed by the end of its reports. */
static void
give_order(const struct supervisor *s, char order)
{
	if (write(s->orders, &order, 1) < 0)
		log_debug("the holder has ended");
}

/* ---- the end of the command ---- */

static void reap(struct supervisor *s);

/* Kills all descendants but the holder, again and again: one may have just started another. */
static void
end_all(struct supervisor *s)
{
	const mono_t patience = mono_add(clock_now(), span_s(RESERVE_S));
	int left;

	if (s->state == RUNS)
		kill(s->command, SIGKILL); /* before any look at the others */
	command_group_kill(&s->group, s->holder);
	do {
		poll(NULL, 0, END_EVERY_MS);
		reap(s);
		left = command_group_kill(&s->group, s->holder);
	} while (left > 0 && !mono_reached(clock_now(), patience));
	s->unkilled = s->group.foreign;
	if (left > s->unkilled)
		log_warn("%d processes of the command were killed but have not ended yet",
		         left - s->unkilled);
	if (s->unkilled > 0)
		log_warn("%s: %d processes of the command belong to another user and can't be "
		         "killed",
		         s->l->path, s->unkilled);
}

/* No process of a command with failed checks is left when its lock is released. */
static void
command_ended(struct supervisor *s, int code)
{
	s->state = ENDED;
	s->command_code = code;
	if (s->given_up) {
		s->command_code = EXIT_CHECK;
		end_all(s);
	} else if (mono_before(clock_now(), s->hangup_ends)) {
		s->told_to_end = true;
	}
	give_order(s, s->command_code == 0 ? HOLDER_RELEASE_DONE : HOLDER_RELEASE);
}

/* Reaps children; orphaned descendants of the command become our children, too. */
static void
reap(struct supervisor *s)
{
	int status;
	pid_t ended;

	while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
		if (ended == s->holder)
			s->holder = 0;
		else if (s->state == RUNS && ended == s->command)
			command_ended(s, WIFEXITED(status) ? WEXITSTATUS(status)
			                                   : CTL_BY_SIGNAL + WTERMSIG(status));
		else
			health_check_ended(&s->check, ended, status);
}

static void
lose(struct supervisor *s, const char *why)
{
	const bool ran = s->state == RUNS;

	s->hangup_ends = clock_now(); /* the command does not end by itself */
	if (s->holder > 0)
		kill(s->holder, SIGKILL);
	end_all(s);
	log_error("%s: the lock was lost: %s%s", s->l->path, why,
	          ran && s->group.foreign == 0 ? "; the command was killed" : "");
	s->result = EXIT_LOST;
}

/* True in a child, which is to write a message and end: where stderr is a file of the mount, that
 * takes as long as the mount is silent, and the deadline does not wait. The child waits for room,
 * too: its message is not lost. */
static bool
in_child(void)
{
	fflush(NULL);
	if (fork() != 0)
		return false;
	log_end_never_blocking();
	close_range(STDERR_FILENO + 1, ~0u, 0);
	return true;
}

static void
freeze(struct supervisor *s, mono_t now)
{
	const mono_t end = kill_time(s);
	char killed[64] = "";

	command_group_freeze(&s->group, s->holder);
	if (!in_child())
		return;
	if (!mono_is_never(end))
		snprintf(killed, sizeof killed, ", or is killed in %lld seconds",
		         (long long)span_to_ms(mono_since(end, now)) / 1000);
	log_warn("%s: the cell can't be reached: the command is frozen%s; it goes on when the cell "
	         "answers%s",
	         s->l->path, command_group_but_for(&s->group), killed);
	_exit(0);
}

static void
warn_command(struct supervisor *s)
{
	descendants_signal(SIGTERM, s->holder, &s->group.foreign);
	s->warned = true;
	if (!in_child())
		return;
	log_warn("%s: the cell can't be reached: the lock is lost in %d seconds; SIGTERM was sent "
	         "to the command%s",
	         s->l->path, WARNING_S, command_group_but_for(&s->group));
	_exit(0);
}

/* A command that is of no use has the time of a warning to end, and its lock is released then. */
static void
check_health(struct supervisor *s, mono_t now)
{
	if (mono_reached(now, s->given_up_at)) {
		s->given_up_at = MONO_NEVER;
		end_all(s);
		if (s->state == RUNS)
			log_warn("%s: the lock is kept until the command ends", s->l->path);
	} else if (!s->given_up && health_check_failed(&s->check)) {
		s->given_up = true;
		s->given_up_at = mono_add(now, span_s(WARNING_S));
		s->check.due = MONO_NEVER;
		descendants_signal(SIGTERM, s->holder, &s->group.foreign);
		log_error("%s: the lock is given up: the check has failed (%d in a row); SIGTERM "
		          "was sent to the command%s",
		          s->l->path, s->check.failures, command_group_but_for(&s->group));
	} else if (mono_reached(now, s->check.due) && s->group.frozen) {
		health_check_begin(&s->check, now);
	} else if (mono_reached(now, s->check.due)) {
		health_check_run(&s->check, now, &s->before);
	}
}

static void
check_deadlines(struct supervisor *s)
{
	mono_t now = clock_now();

	if (s->state == RUNS)
		check_health(s, now);
	if (mono_reached(now, s->tell_at)) {
		s->tell_at = MONO_NEVER;
		if (s->state == ACQUIRING)
			lock_wait_print(s->l->path, s->holder);
	}
	if (mono_reached(now, kill_time(s))) {
		lose(s, "the cell can't be reached, and the session's lease has ended");
	} else if (mono_reached(now, freeze_time(s))) {
		freeze(s, now);
	} else if (mono_reached(now, warning_time(s))) {
		warn_command(s);
	}
	arm(s);
}

/* ---- reports of the holder ---- */

static void
lease_reported(struct supervisor *s, mono_t end)
{
	s->warned &= !mono_before(s->lease_end, end);
	s->lease_end = end;
	if (!s->group.frozen || !mono_before(clock_now(), end))
		return;
	command_group_thaw(&s->group);
	if (!in_child())
		return;
	log_warn("%s: the cell answers again: the command goes on", s->l->path);
	_exit(0);
}

static void
command_started(struct supervisor *s, pid_t pid)
{
	s->state = RUNS;
	s->command = pid;
	if (pid == 0)
		command_ended(s, CTL_NOT_RUN);
	else
		command_group_started(&s->group, pid);
	health_check_begin(&s->check, clock_now());
	reap(s);
}

static void
on_report(struct supervisor *s)
{
	struct report r;

	if (read(s->reports, &r, sizeof r) != sizeof r) {
		lose(s, "its holder has ended");
		return;
	}
	switch (r.kind) {
	case HOLDER_FAILED:
		s->result = r.code;
		s->error = r.error;
		break;
	case HOLDER_LEASE:
		lease_reported(s, r.time);
		break;
	case HOLDER_HOLDS:
		s->delay = r.delay;
		s->lasting = r.lasting;
		s->state = STARTING;
		command_group_make(&s->group);
		give_order(s, HOLDER_GO);
		break;
	case HOLDER_STARTED:
		command_started(s, r.pid);
		break;
	case HOLDER_DAEMON_ENDED: /* the session may have expired at any moment since */
		if (s->state == ACQUIRING) {
			lose(s, "the mount's daemon has ended");
			break;
		}
		log_warn("%s: the mount's daemon has ended", s->l->path);
		s->lease_end = mono_min(s->lease_end, r.time);
		close(s->reports);
		s->reports = -1;
		break;
	case HOLDER_LOST:
		lose(s, "its session is over");
		break;
	case HOLDER_DELETED:
		lose(s, "the file was deleted or renamed");
		break;
	case HOLDER_UNLOCKED:
		lose(s, "an operator has released it");
		break;
	case HOLDER_RELEASED:
		s->result = s->command_code;
		break;
	}
}

/* This process was stopped, or the machine suspended: what it knows is old. It waits for a new
 * report for a while; a command that would be killed stands still meanwhile. */
static void
catch_up(struct supervisor *s, mono_t now)
{
	const bool kills = mono_reached(now, kill_time(s));
	const mono_t patience =
	    mono_min(mono_add(now, span_s(RESERVE_S)), kills ? MONO_NEVER : kill_time(s));
	struct pollfd wait = {.fd = s->reports, .events = POLLIN};

	if (kills && s->state == RUNS && !s->group.frozen)
		command_group_freeze(&s->group, s->holder);
	for (; s->result == UNDECIDED && s->reports >= 0 && mono_reached(now, s->lease_end) &&
	       !mono_reached(now, patience);
	     now = clock_now())
		if (poll(&wait, 1, (int)span_to_ms(mono_since(patience, now)) + 1) > 0)
			on_report(s);
}

/* ---- signals ---- */

static const int forwarded[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

/* While no command runs a signal ends the supervisor itself, as if it were not handled. With a
 * lasting session also when one has ended or was frozen: neither release nor thaw has a time.
 * Else it is forwarded, unless the command has it already: those from the terminal go to the whole
 * foreground process group, but those of a hangup to the session's leader alone. SIGCONT does not
 * thaw a frozen command. One that is ignored is read, too, since it is blocked: the command began
 * with ignoring it, and nobody is told to end. A command that lives on after SIGHUP or SIGQUIT has
 * taken it for something else. */
static void
on_signal(struct supervisor *s)
{
	struct signalfd_siginfo info;
	struct sigaction action;
	bool told, ends, had;

	if (read(s->signals, &info, sizeof info) != sizeof info)
		return;
	sigaction((int)info.ssi_signo, NULL, &action);
	ends = info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
	told = action.sa_handler != SIG_IGN &&
	       (ends || info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT);
	had = info.ssi_code == SI_KERNEL && getpgid(s->command) == getpgrp() &&
	      (getsid(0) != getpid() || (info.ssi_signo != SIGHUP && info.ssi_signo != SIGCONT));
	s->told_to_end |= told && ends;
	if (told && !ends)
		s->hangup_ends = mono_add(clock_now(), span_s(WARNING_S));
	if (told && ends && s->state == RUNS && s->group.frozen && s->lasting) {
		end_all(s);
		command_group_remove(&s->group);
	}
	if (info.ssi_signo == SIGCHLD)
		reap(s);
	else if (s->state == ACQUIRING || (s->state == ENDED && s->lasting && told))
		program_take_signal((int)info.ssi_signo); /* the holder ends with us */
	else if (s->state == RUNS && !had && !(s->group.frozen && info.ssi_signo == SIGCONT))
		kill(s->command, (int)info.ssi_signo);
}

/* ---- the supervisor and its child ---- */

static void __attribute__((noreturn))
become_holder(const struct supervisor *s, pid_t parent, int orders, int reports)
{
	sigset_t all;

	/* When the supervisor is killed, a running command keeps the lock, by the inherited
	 * descriptor; a holder that still waits for the lock must end. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(CTL_FAILED);
	sigfillset(&all);
	sigdelset(&all, SIGALRM);
	sigprocmask(SIG_SETMASK, &all, NULL);
	holder_run(s->l, s->earlier, orders, reports, &s->before, &s->group);
}

static bool
start_holder(struct supervisor *s)
{
	const pid_t self = getpid();
	int orders[2], reports[2];

	if (pipe2(orders, O_CLOEXEC) < 0 || pipe2(reports, O_CLOEXEC) < 0)
		return false;
	fflush(NULL);
	s->holder = fork();
	if (s->holder == 0) {
		close(orders[1]);
		become_holder(s, self, orders[0], reports[1]);
	}
	close(orders[0]);
	close(reports[1]);
	s->orders = orders[1];
	s->reports = reports[0];
	return s->holder > 0;
}

/* The command is not started beside itself. */
static void
outwait_former(struct supervisor *s)
{
	struct pollfd wait = {.fd = s->signals, .events = POLLIN};

	if (s->unkilled > 0)
		log_warn("%s: the command is not started again before they end", s->l->path);
	while (s->unkilled > 0) {
		if (poll(&wait, 1, SILENCE_MS) > 0)
			on_signal(s);
		descendants_signal(SIGKILL, 0, &s->unkilled);
	}
}

static bool
start(struct supervisor *s)
{
	sigset_t blocked;

	sigemptyset(&s->watched);
	sigaddset(&s->watched, SIGCHLD);
	for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
		sigaddset(&s->watched, forwarded[i]);
	blocked = s->watched;
	sigaddset(&blocked, SIGPIPE);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	s->signals = signalfd(-1, &s->watched, SFD_CLOEXEC);
	s->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->signals < 0 || s->timer < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return false;
	outwait_former(s);
	return start_holder(s);
}

/* While the command is being started signals stay pending, until they can be forwarded. */
static void
wait_and_serve(struct supervisor *s)
{
	struct pollfd wait[] = {
	    {.fd = s->reports, .events = POLLIN},
	    {.fd = s->state == STARTING ? -1 : s->signals, .events = POLLIN},
	    {.fd = s->timer, .events = POLLIN},
	};
	mono_t now;

	if (poll(wait, 3, -1) < 0)
		return;
	now = clock_now();
	if (wait[0].revents)
		on_report(s);
	if (wait[1].revents && s->result == UNDECIDED)
		on_signal(s);
	if (s->result == UNDECIDED && mono_reached(now, mono_add(s->armed, span_ms(LATE_MS))) &&
	    mono_reached(now, verdict_time(s)))
		catch_up(s, now);
}

/* True if the lock is to be tried for again, to start the command anew: not a command that was told
 * to end, or that can't be run. */
static bool
tries_again(const struct supervisor *s)
{
	if (!s->l->restarts || s->told_to_end)
		return false;
	return s->result == EXIT_LOST || s->error != 0 ||
	       (s->state == ENDED && s->result != CTL_NOT_RUN && s->result != CTL_NOT_FOUND);
}

/* Holds the lock once; `tries` tells of the try before, and then of this one. */
static int
hold(const struct lock_options *l, const sigset_t *before, struct earlier_try *tries)
{
	struct supervisor s = {
	    .l = l,
	    .unkilled = tries->unkilled,
	    .earlier = *tries,
	    .before = *before,
	    .tell_at =
	        isatty(STDERR_FILENO) ? mono_add(clock_now(), span_ms(SILENCE_MS)) : MONO_NEVER,
	    .lease_end = MONO_NEVER,
	    .given_up_at = MONO_NEVER,
	    .check = {.command = l->check,
	              .every = {(int64_t)(l->check_every_s * 1e9)},
	              .patience = l->check_fails},
	    .result = UNDECIDED,
	};

	tries->tried = false;
	command_group_name(&s.group);
	if (!start(&s))
		return CTL_FAIL("%s: cannot start: %s", l->path, strerror(errno));
	while (s.result == UNDECIDED) {
		check_deadlines(&s);
		if (s.result == UNDECIDED)
			wait_and_serve(&s);
	}
	health_check_end(&s.check);
	command_group_remove(&s.group);
	if (s.result != EXIT_LOST && s.holder > 0)
		waitpid(s.holder, NULL, 0); /* then its descriptors on the mount are closed */
	close(s.signals);
	close(s.timer);
	close(s.orders);
	close(s.reports);
	*tries = (struct earlier_try){tries_again(&s), s.error, s.unkilled};
	return s.result;
}

int
supervisor_run(const struct lock_options *l)
{
	struct earlier_try tries = {0};
	sigset_t before;
	int code;

	log_never_block(); /* the deadline does not wait for a reader of what is said */
	sigprocmask(SIG_BLOCK, NULL, &before);
	do {
		if (tries.tried)
			sleep(RESERVE_S); /* others may want the lock, or a session has to begin */
		code = hold(l, &before, &tries);
	} while (tries.tried);
	return code;
}
