#include "ctl/addresses.h"

#include <stdio.h>
#include <string.h>
#include "cell/sys/log.h"

enum { OPT_DIR = 256, OPT_REPLICA, OPT_SET, OPT_PRIVATE };

static void
add(struct addresses *a, const char *address)
{
	if (a->n <= LIMIT_REPLICAS)
		a->list[a->n++] = address;
}

int
addresses_scan(struct ctl *ctl, int argc, char **argv, const char **directory, struct addresses *a)
{
	static const struct option longs[] = {
	    {"dir", required_argument, NULL, OPT_DIR},
	    {"replica", required_argument, NULL, OPT_REPLICA},
	    {"set", required_argument, NULL, OPT_SET},
	    {"private", no_argument, NULL, OPT_PRIVATE},
	    CTL_LONG_OPTIONS,
	};
	int letter;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (letter == OPT_DIR)
			*directory = optarg;
		else if (letter == OPT_REPLICA)
			add(a, optarg);
		else if (letter == OPT_SET && a->set_n < SETTING_CODES)
			a->set[a->set_n++] = optarg;
		else if (letter == OPT_PRIVATE)
			a->is_private = true;
		else if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	return 0;
}

int
addresses_check(const struct addresses *a, const struct ctl_command *command)
{
	if (a->n > LIMIT_REPLICAS)
		return ctl_usage(command, a->list[LIMIT_REPLICAS], "more than 7 replicas");
	for (int i = 0; i < a->n; i++) {
		if (!cell_file_address_valid(a->list[i]))
			return ctl_usage(command, a->list[i], "not HOST:PORT");
		for (int k = 0; k < i; k++)
			if (strcmp(a->list[k], a->list[i]) == 0)
				return ctl_usage(command, a->list[i], "given twice");
	}
	return 0;
}

void
addresses_to_cell_file(const struct addresses *a, struct cell_file *cell_file)
{
	cell_file->replicas_n = a->n > 0 ? a->n : 1;
	for (int i = 0; i < cell_file->replicas_n; i++) {
		struct cell_file_replica *r = &cell_file->replicas[i];

		r->id = (uint8_t)(i + 1);
		r->role = MEMBER_VOTER;
		snprintf(r->address, sizeof r->address, "%s", a->n > 0 ? a->list[i] : "");
	}
	if (a->n > 0 && a->n % 2 == 0)
		log_warn("%d replicas outlive no more failures than %d do", a->n, a->n - 1);
}
