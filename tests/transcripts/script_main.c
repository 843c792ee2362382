/* The program around a player: all transcripts of its folder, or those that are named. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/transcripts/script.h"
#include "tests/transcripts/script_lines.h"

/* In a process of its own, so that one that aborts leaves the others their results. */
static bool
play_apart(const struct script_player *player, const char *path, bool accept)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		const int n = script_play(player, path, accept, stdout);

		exit(n == 0 || (accept && n > 0) ? 0 : 1);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return false;
	if (WIFSIGNALED(status))
		printf("# ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int
is_transcript(const struct dirent *entry)
{
	const size_t n = strlen(entry->d_name);

	return n > 4 && strcmp(entry->d_name + n - 4, ".txt") == 0;
}

/* The paths of all transcripts of the folder. */
static struct lines
list(const char *folder)
{
	const char *source = getenv("srcdir");
	struct lines paths = {0};
	struct dirent **entries;
	char path[4096];
	int n;

	snprintf(path, sizeof path, "%s/tests/transcripts/%s", source ? source : "..", folder);
	n = scandir(path, &entries, is_transcript, alphasort);
	if (n < 0)
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/tests/transcripts/%s/%s", source ? source : "..",
		         folder, entries[i]->d_name);
		lines_add(&paths, path);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return paths;
}

int
script_main(int argc, char **argv, const struct script_player *player)
{
	const bool accept = argc > 1 && strcmp(argv[1], "--accept") == 0;
	struct lines paths = {0};
	int failed = 0;

	for (int i = 1 + accept; i < argc; i++)
		lines_add(&paths, argv[i]);
	if (paths.n == 0)
		paths = list(player->folder);
	printf("1..%zu\n", paths.n);
	for (size_t i = 0; i < paths.n; i++) {
		const bool ok = play_apart(player, paths.line[i], accept);

		printf("%sok %zu - %s\n", ok ? "" : "not ", i + 1, paths.line[i]);
		failed += !ok;
	}
	failed += paths.n == 0;
	lines_free(&paths);
	return failed > 0;
}
