#include <inttypes.h>
#include <string.h>
#include "cell/base/printable.h"
#include "cell/page/internal.h"
#include "cell/sys/clock.h"
#include "cell/view/findings.h"
#include "cell/view/output.h"

enum { LOCKS_SHOWN = 20, HOSTS_SHOWN = 50, REFRESH_S = 5 };

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n";

static const char style[] =
    "<style>\n"
    ":root{--back:#fff;--text:#1a1a1a;--faint:#666;--line:#ddd;--good:#1a7f37;--degraded:#9a6700;"
    "--down:#cf222e}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--faint:#8b949e;"
    "--line:#30363d;--good:#3fb950;--degraded:#d29922;--down:#ff7b72}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem;max-width:60rem;background:var(--back);color:var(--text);"
    "font:16px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.35rem;padding:.8rem 1rem;border-left:.5rem solid;margin:0 0 .5rem}\n"
    "h2{font-size:1.05rem;margin:1.5rem 0 .4rem}\n"
    ".good{color:var(--good)}.degraded{color:var(--degraded)}.down{color:var(--down)}\n"
    ".faint{color:var(--faint);font-size:.85rem}\n"
    "ul{padding-left:1.2rem;margin:.4rem 0}\n"
    ".bar{height:.6rem;background:var(--line);border-radius:.3rem;overflow:hidden;"
    "margin:.15rem 0 .7rem}\n"
    ".bar i{display:block;height:100%;background:currentColor}\n"
    ".strip{display:flex;align-items:flex-end;height:3rem;gap:1px;border-bottom:1px solid "
    "var(--line)}\n"
    ".strip i{flex:1;min-width:0;background:currentColor}\n"
    ".strip .rest{background:var(--line);display:flex;align-items:flex-end}\n"
    ".strip b{width:100%;background:var(--good)}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "th,td{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;"
    "border-bottom:1px solid var(--line)}\n"
    "th{font-weight:600;font-size:.85rem;color:var(--faint)}\n"
    "a{color:inherit}\n"
    "td.n,th.n{text-align:right;white-space:nowrap}\n"
    "</style>\n";

/* ---- text ---- */

/* Names come from anyone: what is markup in HTML is escaped, a character that is none for people is
 * shown as its bytes, and none changes the direction of the text around it. */
static void
put_text(struct buffer *to, const char *text)
{
	buffer_printf(to, "<bdi>");
	while (*text != '\0') {
		bool shown;
		const char *const end = text + printable_next(text, &shown);

		for (; text < end; text++) {
			if (!shown)
				buffer_printf(to, "\\x%02x", (unsigned char)*text);
			else if (strchr("&<>\"'", *text) != NULL)
				buffer_printf(to, "&#%d;", *text);
			else
				buffer_put_u8(to, (uint8_t)*text);
		}
	}
	buffer_printf(to, "</bdi>");
}

static void
put_cell(struct buffer *to, const char *text)
{
	buffer_printf(to, "<td>");
	put_text(to, text);
}

static void
put_number(struct buffer *to, json_int_t n)
{
	buffer_printf(to, "<td class=\"n\">%" JSON_INTEGER_FORMAT, n);
}

/* ---- the cell ---- */

static void
put_verdict(struct buffer *to, const json_t *health)
{
	const json_t *findings = json_object_get(health, "problems"), *one;
	const char *verdict = findings_verdict(findings);
	char sentence[1280];
	size_t i;

	findings_sentence(findings, json_text_of(health, "cell"), sentence, sizeof sentence);
	buffer_printf(to, "%s<meta http-equiv=\"refresh\" content=\"%d\">\n<title>", head,
	              REFRESH_S);
	buffer_printf(to, "%s: ", verdict);
	buffer_printf(to, "%s", json_text_of(health, "cell")); /* a cell's name has letters only */
	buffer_printf(to, "</title>\n%s</head><body>\n<h1 class=\"%s\">", style, verdict);
	put_text(to, sentence);
	buffer_printf(to, ".</h1>\n");
	if (json_array_size(findings) > 0)
		buffer_printf(to, "<ul>\n");
	json_array_foreach(findings, i, one) {
		buffer_printf(to, "<li class=\"%s\">",
		              strcmp(json_text_of(one, "severity"), "warning") == 0
		                  ? "degraded"
		                  : json_text_of(one, "severity"));
		put_text(to, json_text_of(one, "object"));
		buffer_printf(to, ": ");
		put_text(to, json_text_of(one, "what"));
		buffer_printf(to, " <span class=\"faint\">");
		put_text(to, json_text_of(one, "do"));
		buffer_printf(to, "</span>\n");
	}
	if (json_array_size(findings) > 0)
		buffer_printf(to, "</ul>\n");
	if (!json_is_null(json_object_get(health, "master")))
		buffer_printf(to,
		              "<p class=\"faint\">Replica %" JSON_INTEGER_FORMAT
		              " is the master since %s, epoch %" JSON_INTEGER_FORMAT
		              "; %" JSON_INTEGER_FORMAT " sessions, %" JSON_INTEGER_FORMAT
		              " held locks.</p>\n",
		              json_number_of(health, "master"),
		              json_text_of(health, "master_since"), json_number_of(health, "epoch"),
		              json_number_of(health, "sessions"),
		              json_number_of(health, "locks_held"));
}

static void
put_replica(struct buffer *to, const json_t *one, json_int_t newest)
{
	const bool heard = json_is_true(json_object_get(one, "reachable"));
	const bool fine = heard && strcmp(json_text_of(one, "condition"), "voting") == 0 &&
	                  !json_is_true(json_object_get(one, "disk_full"));
	const json_int_t applied = json_number_of(one, "applied");

	buffer_printf(to, "<div class=\"%s\">Replica %" JSON_INTEGER_FORMAT " ",
	              fine    ? "good"
	              : heard ? "degraded"
	                      : "down",
	              json_number_of(one, "id"));
	put_text(to, json_text_of(one, "address"));
	buffer_printf(to, ", %s", heard ? json_text_of(one, "role") : "unreachable");
	if (heard && !fine)
		buffer_printf(to, ", %s%s", json_text_of(one, "condition"),
		              json_is_true(json_object_get(one, "disk_full")) ? ", disk full" : "");
	buffer_printf(
	    to,
	    " <span class=\"faint\">%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
	    " entries</span><div class=\"bar\"><i style=\"width:%.1f%%\"></i></div></div>\n",
	    applied, newest, newest > 0 ? 100.0 * (double)applied / (double)newest : 0);
}

static void
put_replicas(struct buffer *to, const json_t *health)
{
	const json_t *replicas = json_object_get(health, "replicas"), *one;
	json_int_t newest = 0;
	size_t i;

	json_array_foreach(replicas, i, one) {
		if (json_number_of(one, "chosen") > newest)
			newest = json_number_of(one, "chosen");
		if (json_number_of(one, "applied") > newest)
			newest = json_number_of(one, "applied");
	}
	buffer_printf(to, "<h2>Replicas</h2>\n");
	json_array_foreach(replicas, i, one)
		put_replica(to, one, newest);
}

/* ---- links ---- */

/* What a replica says of its connection to another one. */
static void
put_link(struct buffer *to, const json_t *from, json_int_t id)
{
	const json_t *links = json_object_get(from, "links"), *one;
	size_t i;

	if (json_number_of(from, "id") == id) {
		buffer_printf(to, "<td>");
		return;
	}
	json_array_foreach(links, i, one) {
		if (json_number_of(one, "id") != id)
			continue;
		if (json_is_true(json_object_get(one, "up")))
			buffer_printf(to, "<td class=\"n good\">up");
		else
			buffer_printf(to, "<td class=\"n down\">down %" JSON_INTEGER_FORMAT " s",
			              json_number_of(one, "down_ms") / 1000);
		return;
	}
	buffer_printf(to, "<td class=\"n faint\">not known");
}

static void
put_links(struct buffer *to, const json_t *replicas)
{
	const json_t *from, *other;
	size_t i, j;

	if (json_array_size(replicas) < 2)
		return;
	buffer_printf(to, "<h2>Links between replicas</h2>\n<table><tr><th>from, to");
	json_array_foreach(replicas, i, other)
		buffer_printf(to, "<th class=\"n\">%" JSON_INTEGER_FORMAT,
		              json_number_of(other, "id"));
	buffer_printf(to, "</tr>\n");
	json_array_foreach(replicas, i, from) {
		buffer_printf(to, "<tr><th>%" JSON_INTEGER_FORMAT, json_number_of(from, "id"));
		json_array_foreach(replicas, j, other)
			put_link(to, from, json_number_of(other, "id"));
		buffer_printf(to, "</tr>\n");
	}
	buffer_printf(to, "</table>\n");
}

/* ---- the last hour ---- */

static void
put_last_hour(struct buffer *to, const struct last_hour *seen, uint8_t self)
{
	const struct last_hour_minute *m;
	uint64_t most = 1, fail_overs = 0;
	int masterless = 0;

	for (int i = 0; i < LAST_HOUR_MINUTES; i++) {
		m = last_hour_ago(seen, i);
		most = m->entries > most ? m->entries : most;
		fail_overs += m->fail_overs;
		masterless += m->masterless;
	}
	buffer_printf(to,
	              "<h2>The last hour, as replica %d saw it</h2>\n<p class=\"faint\">Entries of "
	              "the log in each minute, at most %" PRIu64 "; %" PRIu64
	              " changes of master (amber); no master in %d minutes (red).</p>\n"
	              "<div class=\"strip\">",
	              self, most, fail_overs, masterless);
	for (int i = LAST_HOUR_MINUTES - 1; i >= 0; i--) {
		m = last_hour_ago(seen, i);
		buffer_printf(to, "<i class=\"%s\" style=\"height:%.0f%%\"></i>",
		              m->masterless       ? "down"
		              : m->fail_overs > 0 ? "degraded"
		                                  : "good",
		              !m->seen ? 0
		              : m->masterless || m->fail_overs > 0
		                  ? 100.0
		                  : 2 + 98.0 * (double)m->entries / (double)most);
	}
	buffer_printf(to, "</div>\n");
}

/* On a scale of doublings, from half a millisecond to ten seconds. */
static int
percent_of(uint64_t us)
{
	int doublings = 1;

	for (uint64_t at = 500; at < us; at *= 2)
		doublings++;
	return us == 0 ? 0 : doublings * 100 / 16;
}

/* The replica knows that of the minutes in which it was the master. */
static void
put_commits(struct buffer *to, const struct last_hour *seen)
{
	struct latency all = {0};

	for (int i = 0; i < LAST_HOUR_MINUTES; i++)
		latency_add(&all, &last_hour_ago(seen, i)->commits, &(struct latency){0});
	if (latency_quantile_us(&all, 1000) == 0)
		return;
	buffer_printf(
	    to,
	    "<p class=\"faint\">Time that its commits took in each minute, on a scale of "
	    "doublings to 10 s: half of them at most %g ms (green), 99 of 100 at most %g ms "
	    "(grey).</p>\n<div class=\"strip\">",
	    (double)latency_quantile_us(&all, 500) / 1000,
	    (double)latency_quantile_us(&all, 990) / 1000);
	for (int i = LAST_HOUR_MINUTES - 1; i >= 0; i--) {
		const struct latency *l = &last_hour_ago(seen, i)->commits;
		const int p99 = percent_of(latency_quantile_us(l, 990));
		const int p50 = percent_of(latency_quantile_us(l, 500));

		buffer_printf(
		    to, "<i class=\"rest\" style=\"height:%d%%\"><b style=\"height:%d%%\"></b></i>",
		    p99, p99 > 0 ? p50 * 100 / p99 : 0);
	}
	buffer_printf(to, "</div>\n");
}

/* ---- locks ---- */

static json_int_t
longest_wait(const json_t *lock)
{
	const json_t *one;
	json_int_t longest = -1;
	size_t i;

	json_array_foreach(json_object_get(lock, "waiters"), i, one)
		if (json_number_of(one, "seconds") > longest)
			longest = json_number_of(one, "seconds");
	return longest;
}

static void
put_party(struct buffer *to, const json_t *p)
{
	buffer_printf(to, "<td>");
	if (p == NULL)
		return;
	put_text(to, json_text_of(p, "host"));
	if (json_number_of(p, "pid") > 0)
		buffer_printf(to, " process %" JSON_INTEGER_FORMAT, json_number_of(p, "pid"));
	buffer_printf(to, " <span class=\"faint\">");
	put_text(to, json_text_of(p, "principal"));
	buffer_printf(to, ", %" JSON_INTEGER_FORMAT " s</span>", json_number_of(p, "seconds"));
}

/* The locks with the longest waits. */
static void
put_locks(struct buffer *to, const json_t *locks)
{
	const json_t *shown[LOCKS_SHOWN] = {NULL}, *lock;
	size_t i, n = 0;

	json_array_foreach(locks, i, lock) {
		const json_int_t wait = longest_wait(lock);
		size_t at = n;

		if (wait < 0)
			continue;
		n += n < LOCKS_SHOWN;
		for (; at > 0 && longest_wait(shown[at - 1]) < wait; at--)
			if (at < LOCKS_SHOWN)
				shown[at] = shown[at - 1];
		if (at < LOCKS_SHOWN)
			shown[at] = lock;
	}
	buffer_printf(to, "<h2>Locks longest waited for</h2>\n");
	if (n == 0) {
		buffer_printf(to, "<p class=\"faint\">Nobody waits for a lock.</p>\n");
		return;
	}
	buffer_printf(to,
	              "<table><tr><th>lock<th>holder<th>waits first<th class=\"n\">queue</tr>\n");
	for (i = 0; i < n; i++) {
		const json_t *holders = json_object_get(shown[i], "holders");
		const json_t *waiters = json_object_get(shown[i], "waiters");

		buffer_printf(to, "<tr>");
		put_cell(to, json_text_of(shown[i], "path"));
		put_party(to, json_array_get(holders, 0));
		if (json_array_size(holders) > 1)
			buffer_printf(to, " and %zu more", json_array_size(holders) - 1);
		put_party(to, json_array_get(waiters, 0));
		put_number(to, (json_int_t)json_array_size(waiters));
		buffer_printf(to, "</tr>\n");
	}
	buffer_printf(to, "</table>\n");
}

/* ---- sessions ---- */

/* An object of each host: {sessions, locks}. */
static json_t *
hosts_of(const json_t *sessions)
{
	json_t *hosts = json_object(), *host;
	const json_t *one;
	size_t i;

	json_array_foreach(sessions, i, one) {
		const char *name = json_text_of(one, "host");

		host = json_object_get(hosts, name);
		if (host == NULL) {
			host = json_object();
			json_object_set_new(hosts, name, host);
		}
		json_object_set_new(host, "sessions",
		                    json_integer(json_number_of(host, "sessions") + 1));
		json_object_set_new(host, "locks",
		                    json_integer(json_number_of(host, "locks") +
		                                 json_number_of(one, "locks")));
	}
	return hosts;
}

/* Takes the host with the most sessions out of the object, which is not empty. */
static void
put_greatest(struct buffer *to, json_t *hosts)
{
	const char *name, *greatest = NULL;
	json_int_t most = -1;
	json_t *host;

	json_object_foreach(hosts, name, host) {
		if (json_number_of(host, "sessions") > most) {
			most = json_number_of(host, "sessions");
			greatest = name;
		}
	}
	host = json_object_get(hosts, greatest);
	buffer_printf(to, "<tr>");
	put_cell(to, greatest);
	put_number(to, most);
	put_number(to, json_number_of(host, "locks"));
	buffer_printf(to, "</tr>\n");
	json_object_del(hosts, greatest);
}

static void
put_sessions(struct buffer *to, const json_t *sessions)
{
	json_t *hosts = hosts_of(sessions);

	buffer_printf(to, "<h2>Sessions by host</h2>\n");
	buffer_printf(to,
	              "<table><tr><th>host<th class=\"n\">sessions<th class=\"n\">locks</tr>\n");
	for (int i = 0; i < HOSTS_SHOWN && json_object_size(hosts) > 0; i++)
		put_greatest(to, hosts);
	buffer_printf(to, "</table>\n");
	if (json_object_size(hosts) > 0)
		buffer_printf(to, "<p class=\"faint\">And %zu more hosts.</p>\n",
		              json_object_size(hosts));
	json_decref(hosts);
}

void
status_page(struct buffer *to, const json_t *health, const json_t *locks, const json_t *sessions,
            const struct last_hour *seen, uint8_t self)
{
	char now[UTC_TEXT];

	utc_text(clock_wall_ns() / 1000000000, now);
	put_verdict(to, health);
	put_replicas(to, health);
	put_links(to, json_object_get(health, "replicas"));
	put_last_hour(to, seen, self);
	put_commits(to, seen);
	if (locks != NULL)
		put_locks(to, locks);
	if (sessions != NULL)
		put_sessions(to, sessions);
	buffer_printf(to,
	              "<p class=\"faint\">Replica %d, %s. <a href=\"/metrics\">metrics</a></p>\n"
	              "</body></html>\n",
	              self, now);
}
