/* Plays the transcripts of the master and of the replica, in the simulated world. */
#include <string.h>
#include "tests/transcripts/cell_player.h"
#include "tests/transcripts/script.h"

static void
run(struct script *s, void *world)
{
	struct player *p = world;
	char *line, *rest;

	if (!player_command(p, script_rest(s)))
		script_misuse(s, "not understood");
	buffer_put_u8(&p->said, 0);
	rest = (char *)p->said.data;
	while ((line = strsep(&rest, "\n")) != NULL && rest != NULL)
		script_say(s, "%s", line);
}

static void *
begin(void)
{
	return player_new();
}

static void
end(void *world)
{
	player_free(world);
}

static const struct script_command commands[] = {{NULL, "see cell_player.h", run}};

int
main(int argc, char **argv)
{
	static const struct script_player player = {"cell", commands, begin, end};

	return script_main(argc, argv, &player);
}
