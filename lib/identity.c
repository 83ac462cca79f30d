/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices. */
#include "identity.h"

#include <stdio.h>
#include <string.h>

/* ASCII, whatever the locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_word(char c)
{
    return c > ' ' && c < 127 && strchr("@,;\"'\\", c) == NULL;
}

/* Blanks in place of each `mark`. */
static void blank_out(char *text, const char *mark)
{
    for (char *at = strstr(text, mark); at != NULL; at = strstr(at, mark))
        memset(at, ' ', strlen(mark));
}

static void cut_at(char *text, const char *mark)
{
    char *at = strstr(text, mark);
    if (at != NULL)
        *at = '\0';
}

static int ends_with(const char *word, const char *end)
{
    size_t length = strlen(word), tail = strlen(end);
    return length >= tail && strcmp(word + length - tail, end) == 0;
}

/* Words that do not tell one chip from another. */
static int is_noise(const char *word)
{
    static const char *const words[] = {"corporation", "corp", "corp.",     "inc", "inc.", "co.", "ltd",
                                        "ltd.",        "gmbh", "processor", "cpu", "gen",  "the"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            return 1;
    if (is_digit(word[0]) && ends_with(word, "th")) /* "13th Gen" */
        return 1;
    return ends_with(word, "-core") || ends_with(word, "ghz") || ends_with(word, "mhz");
}

/* The next word of *at, copied; 0 at the end. */
static int next_word(const char **at, char *word, size_t size)
{
    size_t length = 0;
    while (**at != '\0' && !is_word(**at))
        ++*at;
    for (; is_word(**at); ++*at)
        if (length + 1 < size)
            word[length++] = **at;
    word[length] = '\0';
    return length > 0;
}

void ckv_identity_name(char *to, size_t size, const char *from, const char *vendor)
{
    static const char *const marks[] = {"(r)", "(tm)", "(c)"};
    char text[256], word[64];
    const char *at = text;
    size_t length = 0, used = 0;
    for (; from[length] != '\0' && length + 1 < sizeof text; length++)
        text[length] = lower(from[length]);
    text[length] = '\0';
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        blank_out(text, marks[i]);
    cut_at(text, "(rev");
    cut_at(text, " with "); /* "Ryzen ... with Radeon Graphics" */
    to[0] = '\0';
    while (used + 1 < size && next_word(&at, word, sizeof word))
        if (!is_noise(word) && strcmp(word, vendor) != 0)
            used += (size_t)snprintf(to + used, size - used, "%s%s", used == 0 ? "" : "-", word);
}

/* Vendors that go by several names. */
static void name_vendor(char *vendor, size_t size)
{
    static const struct {
        const char *known, *name;
    } others[] = {
        {"advanced-micro-devices", "amd"},
        {"authenticamd", "amd"},
        {"genuineintel", "intel"},
        {"pocl-project", "pocl"},
    };
    ckv_identity_name(vendor, size, vendor, "");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(vendor, others[i].known) == 0)
            snprintf(vendor, size, "%s", others[i].name);
}

/* Printable, in lower case; blanks stay. */
static void make_plain(char *text)
{
    for (; *text != '\0'; text++)
        *text = *text >= ' ' && *text < 127 ? lower(*text) : '?';
}

void ckv_identity_normalise(ckv_device_identity *identity)
{
    name_vendor(identity->vendor, sizeof identity->vendor);
    ckv_identity_name(identity->name, sizeof identity->name, identity->name, identity->vendor);
    make_plain(identity->arch);
    make_plain(identity->driver);
    make_plain(identity->compiler);
}

int ckv_identity_same_arch(const char *a, const char *b)
{
    size_t length = strcspn(a, ":");
    return length > 0 && strcspn(b, ":") == length && strncmp(a, b, length) == 0;
}
