/* key: makes the key of a principal, and shows the public half of any key. */
#include <errno.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "ctl/ctl.h"

static const char *const kinds[] = {
    [KEY_SIGNING] = "signing",
    [KEY_REPLICA] = "replica",
    [KEY_PRINCIPAL] = "principal",
};

static int
print(const struct ctl *ctl, const struct key_public *key)
{
	char text[KEY_TEXT];
	json_t *all;

	if (!key_to_text(key->public_key, sizeof key->public_key, text, sizeof text))
		return CTL_FAILED;
	if (!ctl->json) {
		puts(text);
		return CTL_OK;
	}
	all = json_object();
	json_object_set_new(all, "kind", json_string(kinds[key->kind]));
	if (key->kind == KEY_PRINCIPAL)
		json_object_set_new(all, "name", json_string(key->name));
	json_object_set_new(all, "public_key", json_string(text));
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
	return CTL_OK;
}

static int
show(const struct ctl *ctl, const char *path)
{
	struct key_public key;
	char why[512];

	if (key_file_read_public(path, &key, why, sizeof why))
		return print(ctl, &key);
	log_error("%s", why);
	return CTL_FAILED;
}

static int
generate(const struct ctl *ctl, const char *path, const char *name)
{
	struct key_public key = {.kind = KEY_PRINCIPAL};
	struct noise_pair pair;
	int rc = key_file_create_channel(path, name, &pair);

	if (rc < 0) {
		log_error("%s: %s", path, rc == -EEXIST ? "exists already" : strerror(-rc));
		return CTL_FAILED;
	}
	strcpy(key.name, name);
	memcpy(key.public_key, pair.public, sizeof key.public_key);
	explicit_bzero(&pair, sizeof pair);
	return print(ctl, &key);
}

/* ---- the command ---- */

static int
run_generate(const struct ctl *ctl, const char *path, const char *name)
{
	const struct passwd *user = name ? NULL : getpwuid(geteuid());

	if (!name)
		name = user ? user->pw_name : "";
	if (!key_principal_valid(name))
		return ctl_usage(&key_command, name[0] ? name : "NAME", "not a principal's name");
	return generate(ctl, path, name);
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	if (argc == 0)
		return ctl_usage(&key_command, "generate or show", "needed");
	if (argc == 2 && strcmp(argv[0], "show") == 0)
		return show(ctl, argv[1]);
	if ((argc == 2 || argc == 3) && strcmp(argv[0], "generate") == 0)
		return run_generate(ctl, argv[1], argc == 3 ? argv[2] : NULL);
	return ctl_usage(&key_command, argv[0], "unknown, or with wrong arguments");
}

const struct ctl_command key_command = {
    "key",
    "generate FILE [NAME] | show FILE",
    "makes the key of a principal; prints the public half of a key",
    .run_plain = run,
};
