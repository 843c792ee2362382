/* The cell file: what is written is read back, what is wrong is named with file, line and value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/config/cell_file.h"
#include "tests/unit/unit.h"

#define KEY "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define ID "AAAAAAAAAAAAAAAAAAAAAA"

static char directory[] = "/tmp/test_cell_file.XXXXXX";
static char path[64];
static char why[512];

static void
put_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void
assert_refused(const char *text, const char *reason)
{
	struct cell_file cell_file;

	put_file(text);
	why[0] = '\0';
	assert_false(cell_file_read(path, &cell_file, why, sizeof why));
	if (strncmp(why, path, strlen(path)) != 0 || strstr(why, reason) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, reason);
}

TEST(test_round_trip)
{
	struct cell_file cell_file = {.name = "dc1.test_a-b",
	                              .replicas_n = 3,
	                              .srv = "_ls._tcp.a.org",
	                              .listen = "[::]:7"},
	                 back;

	unlink(path);
	for (int i = 0; i < 32; i++) {
		cell_file.signing_public[i] = (uint8_t)(255 - i);
		cell_file.former_public[i] = (uint8_t)(i * 5);
		cell_file.admin_public[i] = (uint8_t)(i * 3);
	}
	cell_file.has_admin = cell_file.has_former = true;
	for (int i = 0; i < 3; i++) {
		cell_file.replicas[i].id = (uint8_t)(i * 100 + 1);
		cell_file.replicas[i].role = i == 1 ? MEMBER_LEARNER : MEMBER_VOTER;
		memset(cell_file.replicas[i].public_key, 'k' + i, 32);
		snprintf(cell_file.replicas[i].address, sizeof cell_file.replicas[i].address,
		         "%0*d.example:%d", i * 80, i, 7000 + i);
	}
	assert_int_equal(cell_file_write(path, &cell_file), 0);
	if (!cell_file_read(path, &back, why, sizeof why))
		fail_msg("%s", why);
	assert_memory_equal(&cell_file, &back, sizeof cell_file);
	assert_false(cell_file_is_standalone(&back));
	assert_int_equal(cell_file_write(path, &cell_file), -EEXIST);
	cell_file.version = 1234567890123456789;
	cell_file.key_version = 123456789012345678;
	cell_file.replicas_n = 2;
	memset(&cell_file.replicas[2], 0, sizeof cell_file.replicas[2]);
	assert_int_equal(cell_file_replace(path, &cell_file), 0);
	assert_true(cell_file_read(path, &back, why, sizeof why));
	assert_memory_equal(&cell_file, &back, sizeof cell_file);
	unlink(path);
	assert_int_equal(cell_file_replace(path, &cell_file), 0); /* also of nothing */
}

TEST(test_in_one_process)
{
	struct cell_file cell_file = {
	    .name = "local",
	    .replicas_n = 1,
	    .replicas = {{.id = 1, .role = MEMBER_VOTER}},
	};
	struct cell_file back;

	unlink(path);
	assert_int_equal(cell_file_write(path, &cell_file), 0);
	if (!cell_file_read(path, &back, why, sizeof why))
		fail_msg("%s", why);
	assert_memory_equal(&cell_file, &back, sizeof cell_file);
	assert_true(cell_file_is_standalone(&back));
}

TEST(test_located)
{
	char found[128];

	assert_true(cell_file_locate("no-such-cell", found, sizeof found));
	assert_string_equal(found, CELL_FILE_DIRECTORY "/no-such-cell.conf");
	assert_false(cell_file_locate("dir/cell.conf", found, sizeof found));
	assert_string_equal(found, "dir/cell.conf");
	assert_int_equal(chdir(directory), 0);
	put_file("");
	assert_false(cell_file_locate("c", found, sizeof found));
	assert_string_equal(found, "c");
	assert_int_equal(mkdir("d", 0700), 0);
	assert_true(cell_file_locate("d", found, sizeof found)); /* a name, whatever stands here */
	assert_int_equal(rmdir("d"), 0);
}

TEST(test_addresses)
{
	static const char *const good[] = {
	    "a:1", "127.0.0.1:65535", "host-1.a_b.example:7000", "[::1]:7000", "[fe80::1:2]:7000",
	};
	static const char *const bad[] = {
	    "",     "a",     "a:",       ":7000", "a:0",     "a:65536",   "a:+7",
	    "a:7x", "a b:7", "::1:7000", "[::1]", "[]:7000", "[::1:7000", "[::1]7000",
	};
	char longest[CELL_FILE_HOST_MAX + 8];

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(cell_file_address_valid(good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(cell_file_address_valid(bad[i]));
	memset(longest, 'a', CELL_FILE_HOST_MAX);
	strcpy(longest + CELL_FILE_HOST_MAX, ":7000");
	assert_true(cell_file_address_valid(longest));
	memset(longest, 'a', CELL_FILE_HOST_MAX + 1);
	strcpy(longest + CELL_FILE_HOST_MAX + 1, ":7000");
	assert_false(cell_file_address_valid(longest));
}

TEST(test_by_hand)
{
	struct cell_file cell_file;

	put_file("; a comment\n\n[cell]\n  name: x  \nid = " ID "\nsigning_key=" KEY "\r\n"
	         "# another\n[replica 7]\naddress =\n");
	if (!cell_file_read(path, &cell_file, why, sizeof why))
		fail_msg("%s", why);
	assert_string_equal(cell_file.name, "x");
	assert_int_equal(cell_file.replicas_n, 1);
	assert_int_equal(cell_file.replicas[0].id, 7);
	assert_string_equal(cell_file.replicas[0].address, "");
}

#define GOOD_CELL "[cell]\nname = a\nid = " ID "\nsigning_key = " KEY "\n"
#define GOOD_REPLICA "[replica 1]\naddress =\n"

TEST(test_refused)
{
	char longer[600];

	assert_refused("", "no name");
	assert_refused(GOOD_CELL, "no [replica");
	assert_refused("[cell]\nname = a\n" GOOD_REPLICA, "no id in [cell]");
	assert_refused("[cell]\nname = a\nid = " ID "\n" GOOD_REPLICA, "no signing_key");
	assert_refused("[cell]\nname = a\nid = AAA\n", ":3: id: not a cell's id: AAA");
	assert_refused("[cell]\nname = ../etc\n", ":2: name: not a cell's name: ../etc");
	assert_refused("[cell]\nname = a\nname = b\n", ":3: name: given twice: b");
	assert_refused("[cell]\nname = a\nsigning_key = AAA\n", ":3: signing_key: not a key: AAA");
	assert_refused("[cell]\nname = a\nformer_signing_key = AAA\n",
	               ":3: former_signing_key: not a key: AAA");
	assert_refused(GOOD_CELL "former_signing_key = " KEY "\nformer_signing_key = " KEY "\n",
	               ":6: former_signing_key: given twice");
	assert_refused(GOOD_CELL "colour = red\n" GOOD_REPLICA,
	               ":5: unknown setting in [cell]: colour = red");
	assert_refused(GOOD_CELL "[replica 0]\naddress =\n", ":6: unknown section [replica 0]");
	assert_refused(GOOD_CELL "[replica 256]\naddress =\n", "[replica 256]");
	assert_refused(GOOD_CELL "[replica 1x]\naddress =\n", "[replica 1x]");
	assert_refused(GOOD_CELL GOOD_REPLICA GOOD_REPLICA, ":8: address: given twice");
	assert_refused(GOOD_CELL "[replica 1]\nport = 7\n",
	               ":6: unknown setting in [replica 1]: port");
	assert_refused(GOOD_CELL GOOD_REPLICA "nonsense\n", ":7: not \"[section]\"");
	assert_refused("\x7f"
	               "ELF\x01\x01",
	               ":1: not");
	assert_refused(GOOD_CELL "[replica 1]\naddress = nowhere\n",
	               ":6: address: not HOST:PORT: nowhere");
	snprintf(longer, sizeof longer, "%s[replica 1]\naddress = %0400d\n", GOOD_CELL, 7);
	assert_refused(longer, ":6: line too long");
	unlink(path);
	assert_false(cell_file_read(path, &(struct cell_file){0}, why, sizeof why));
	assert_non_null(strstr(why, "No such file"));
}

#define KEY_1 "key = BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
#define KEY_2 "key = CAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
#define NETWORK GOOD_CELL "admin_key = " KEY "\n"
#define FIRST "[replica 1]\naddress = a:1\n" KEY_1
#define SECOND "[replica 2]\naddress = b:1\n" KEY_2

TEST(test_network_refused)
{
	struct cell_file cell_file;

	put_file(NETWORK FIRST SECOND);
	if (!cell_file_read(path, &cell_file, why, sizeof why))
		fail_msg("%s", why);
	assert_refused(GOOD_CELL FIRST SECOND, "no admin_key");
	assert_refused(NETWORK "admin_key = " KEY "\n" FIRST, ":6: admin_key: given twice");
	assert_refused(GOOD_CELL "version = 1\nversion = 2\n", ":6: version: given twice: 2");
	assert_refused(GOOD_CELL "listen = 7000\n", ":5: listen: not HOST:PORT: 7000");
	assert_refused(GOOD_CELL "srv = a b\n", ":5: srv: not a DNS name: a b");
	assert_refused(GOOD_CELL "srv =\n", ":5: srv: not a DNS name: ");
	assert_refused(GOOD_CELL "srv = a\nsrv = a\n", ":6: srv: given twice: a");
	assert_refused(GOOD_CELL "listen = a:1\nlisten = a:1\n", ":6: listen: given twice: a:1");
	assert_refused(GOOD_CELL "private = maybe\n", ":5: private: neither yes nor no: maybe");
	assert_refused(GOOD_CELL "private = no\nprivate = yes\n", ":6: private: given twice: yes");
	assert_refused(GOOD_CELL "key_version = 1\nkey_version = 2\n",
	               ":6: key_version: given twice: 2");
	assert_refused(GOOD_CELL "key_version = x\n", ":5: key_version: not a log index: x");
	assert_refused(GOOD_CELL "version = 0\n", ":5: version: not a log index: 0");
	assert_refused(GOOD_CELL "version = -1\n", ":5: version: not a log index: -1");
	assert_refused(GOOD_CELL "version = 1x\n", ":5: version: not a log index: 1x");
	assert_refused(GOOD_CELL "admin_key = x\n" FIRST, ":5: admin_key: not a key: x");
	assert_refused(NETWORK FIRST "[replica 2]\n" KEY_2, "no address in [replica 2]");
	assert_refused(NETWORK FIRST "[replica 2]\naddress =\n" KEY_2, "no address in [replica 2]");
	assert_refused(NETWORK FIRST "[replica 2]\naddress = b:1\n", "no key in [replica 2]");
	assert_refused(GOOD_CELL "[replica 1]\n" KEY_1, "no admin_key");
	assert_refused(NETWORK "[replica 1]\n" KEY_1, "no address in [replica 1]");
	assert_refused(NETWORK FIRST KEY_2, ":9: key: given twice");
	assert_refused(NETWORK FIRST "[replica 2]\naddress = a:1\n" KEY_2,
	               "replicas 1 and 2 have the same address: a:1");
	assert_refused(NETWORK FIRST "[replica 2]\naddress = b:1\n" KEY_1,
	               "replicas 1 and 2 have the same key");
	assert_refused(NETWORK FIRST SECOND "[replica 3]\naddress = c:1\nkey = QQ\n",
	               "key: not a key: QQ");
	assert_refused(NETWORK FIRST "role = boss\n", ":9: role: neither voter nor learner: boss");
	assert_refused(NETWORK FIRST "role = voter\nrole = learner\n", ":10: role: given twice");
}

/* Reading does not wait for somebody who writes it. */
TEST(test_not_a_regular_file)
{
	struct cell_file cell_file;

	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(10);
	assert_false(cell_file_read(path, &cell_file, why, sizeof why));
	assert_non_null(strstr(why, "c: not a regular file"));
	alarm(0);
	unlink(path);
}

TEST(test_settings)
{
	struct cell_file cell_file;

	put_file(
	    GOOD_CELL
	    "[settings]\nsession_lease = 20s\nquota_bytes = 3G\nheartbeat = 150ms\n" GOOD_REPLICA);
	if (!cell_file_read(path, &cell_file, why, sizeof why))
		fail_msg("%s", why);
	assert_int_equal(settings_value(&cell_file.settings, SETTING_session_lease), 20000);
	assert_int_equal(settings_value(&cell_file.settings, SETTING_quota_bytes), 3ull << 30);
	assert_int_equal(settings_value(&cell_file.settings, SETTING_heartbeat), 150);
	assert_int_equal(settings_value(&cell_file.settings, SETTING_cache_lease), 5000);
	assert_int_equal(cell_file_replace(path, &cell_file), 0);
	assert_true(cell_file_read(path, &cell_file, why, sizeof why));
	assert_int_equal(settings_value(&cell_file.settings, SETTING_heartbeat), 150);
	assert_refused(GOOD_CELL "[settings]\ncolour = 1\n", ":6: unknown setting: colour");
	assert_refused(GOOD_CELL "[settings]\nheartbeat = 7\n",
	               ":6: heartbeat: not a number above 0 with ms, s or m: 7");
	assert_refused(GOOD_CELL "[settings]\nquota_nodes = 7s\n",
	               ":6: quota_nodes: not a number above 0: 7s");
	assert_refused(GOOD_CELL "[settings]\nheartbeat = 1s\nheartbeat = 1s\n",
	               ":7: heartbeat: given twice");
	assert_refused(GOOD_CELL "[settings]\nsession_lease = 2m\n" GOOD_REPLICA,
	               "session_lease: from 1s to 1m");
	assert_refused(GOOD_CELL "[settings]\nsession_lease = 4s\n" GOOD_REPLICA,
	               "cache_lease: not longer than session_lease");
	assert_refused(GOOD_CELL "[settings]\nheartbeat = 167ms\n" GOOD_REPLICA,
	               "heartbeat: at most a third of master_lease");
}

/* What a replica that joins is given: members that came and went before it. */
TEST(test_learner)
{
	struct cell_file cell_file;

	put_file(NETWORK "[replica 9]\naddress = a:1\n" KEY_1 "role = learner\n"
	                 "[replica 4]\naddress = b:1\n" KEY_2 "role = voter\n");
	if (!cell_file_read(path, &cell_file, why, sizeof why))
		fail_msg("%s", why);
	assert_int_equal(cell_file.replicas_n, 2);
	assert_int_equal(cell_file.replicas[0].id, 9);
	assert_int_equal(cell_file.replicas[0].role, MEMBER_LEARNER);
	assert_int_equal(cell_file.replicas[1].id, 4);
	assert_int_equal(cell_file.replicas[1].role, MEMBER_VOTER);
}

TEST(test_names)
{
	static const char *const bad[] = {"", ".a", "a/b", "a b", "\xc3\xa4"};
	char name[LIMIT_CELL_NAME + 2];

	assert_true(cell_file_cell_name_valid("local"));
	assert_true(cell_file_cell_name_valid("9.a_b-C"));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(cell_file_cell_name_valid(bad[i]));
	memset(name, 'a', sizeof name);
	name[LIMIT_CELL_NAME] = '\0';
	assert_true(cell_file_cell_name_valid(name));
	name[LIMIT_CELL_NAME] = 'a';
	name[LIMIT_CELL_NAME + 1] = '\0';
	assert_false(cell_file_cell_name_valid(name));
}

TEST(test_unreadable)
{
	struct cell_file cell_file;

	assert_false(cell_file_read(directory, &cell_file, why, sizeof why));
	assert_non_null(strstr(why, strerror(EISDIR)));
}

static void
put_in_data_directory(int replica, const struct cell_file *cell_file)
{
	char where[128];

	snprintf(where, sizeof where, "%s/%d", directory, replica);
	assert_int_equal(mkdir(where, 0700), 0);
	snprintf(where, sizeof where, "%s/%d/cell.conf", directory, replica);
	assert_int_equal(cell_file_write(where, cell_file), 0);
}

static void
drop_data_directory(int replica)
{
	char where[128];

	snprintf(where, sizeof where, "%s/%d/cell.conf", directory, replica);
	assert_int_equal(unlink(where), 0);
	*strrchr(where, '/') = '\0';
	assert_int_equal(rmdir(where), 0);
}

/* Of several lists the newest of the same cell counts, and nothing but the list is taken. */
TEST(test_newer_list)
{
	struct cell_file old = {
	    .name = "test-newer",
	    .id = {1},
	    .version = 5,
	    .has_admin = true,
	    .replicas_n = 1,
	    .replicas = {{.id = 1, .role = MEMBER_VOTER, .address = "a:1", .public_key = {1}}},
	};
	struct cell_file newer = old, newest = old, of_another = old, found = old;

	newer.version = 6;
	newest.version = 7;
	newest.replicas[0].id = 4;
	strcpy(newest.listen, "[::]:9");
	of_another.version = 8;
	of_another.id[0] = 2;
	assert_false(cell_file_renew(path, &found));
	put_in_data_directory(1, &old);
	assert_false(cell_file_renew(path, &found));
	put_in_data_directory(4, &newest);
	put_in_data_directory(6, &newer);
	put_in_data_directory(200, &of_another);
	assert_true(cell_file_renew(path, &found));
	memset(newest.listen, 0, sizeof newest.listen);
	assert_memory_equal(&found, &newest, sizeof found);
	assert_false(cell_file_renew(path, &found));
	drop_data_directory(1);
	drop_data_directory(4);
	drop_data_directory(6);
	drop_data_directory(200);
}

/* A list that another user wrote tells clients which keys to trust. */
TEST(test_newer_list_of_another_user)
{
	struct cell_file old = {
	    .name = "test-newer",
	    .id = {1},
	    .version = 5,
	    .has_admin = true,
	    .replicas_n = 1,
	    .replicas = {{.id = 1, .role = MEMBER_VOTER, .address = "a:1", .public_key = {1}}},
	};
	struct cell_file newer = old;
	char where[128];

	if (geteuid() != 0)
		skip();
	newer.version = 6;
	put_in_data_directory(3, &newer);
	snprintf(where, sizeof where, "%s/3/cell.conf", directory);
	assert_int_equal(chown(where, 12345, 12345), 0);
	assert_false(cell_file_renew(path, &old));
	assert_int_equal(chown(where, 0, 0), 0);
	assert_true(cell_file_renew(path, &old));
	drop_data_directory(3);
}

int
main(void)
{
	int failed;

	if (mkdtemp(directory) == NULL)
		return 1;
	snprintf(path, sizeof path, "%s/c", directory);
	failed = unit_run(NULL, NULL);
	unlink(path);
	rmdir(directory);
	return failed;
}
