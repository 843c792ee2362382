/* What end-to-end tests need that a shell can't do: crowds of processes, exact calls, their
 * errors. */
#ifndef LSFS_TESTS_STRESS_H
#define LSFS_TESTS_STRESS_H

#include <sys/types.h>

/* Ends this process with a message unless the condition holds. */
#define check(condition, ...) ((condition) ? (void)0 : fail(__FILE__, __LINE__, __VA_ARGS__))
_Noreturn void fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Starts a child that runs work(argument, i) and exits with 0. */
pid_t spawn(void (*work)(const char *argument, int i), const char *argument, int i);
/* Waits for n children and checks that each exited with 0. */
void join(int n);
/* Opens for reading and writing, creating. */
int open_file(const char *path);
/* Waits until the process sleeps in flock(2). */
void await_flock(pid_t pid);

/* The parts that stress.c lists: 0 when all went well. */
int stress_count(int argc, char **argv);
int stress_append(int argc, char **argv);
int stress_crowd(int argc, char **argv);
int stress_waits(int argc, char **argv);
int stress_massacre(int argc, char **argv);
int stress_signals(int argc, char **argv);
int stress_order(int argc, char **argv);
int stress_restart(int argc, char **argv);
int stress_upgrade(int argc, char **argv);
int stress_timer(int argc, char **argv);
int stress_busy(int argc, char **argv);
int stress_pester(int argc, char **argv);
int stress_records(int argc, char **argv);
int stress_steady(int argc, char **argv);
int stress_pauses(int argc, char **argv);
int stress_load(int argc, char **argv);
int stress_verify(int argc, char **argv);

#endif
