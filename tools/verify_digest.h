/* SPDX-License-Identifier: Apache-2.0 */
/* One hash of all that the reference gave, for machines that cannot see each other. */
#ifndef CKV_TOOLS_VERIFY_DIGEST_H
#define CKV_TOOLS_VERIFY_DIGEST_H

#include "verify.h"

/* XXH3's 128 bits, of little-endian words in a fixed order: nothing of the machine is in it. */
struct verify_digest;

struct verify_digest *verify_digest_new(void); /* NULL: out of memory */
void verify_digest_free(struct verify_digest *digest);
void verify_digest_add(struct verify_digest *digest, const struct verify_result results[VERIFY_STAGES]);

#define VERIFY_DIGEST 33
void verify_digest_text(const struct verify_digest *digest, char text[VERIFY_DIGEST]);

#endif
