/* SPDX-License-Identifier: Apache-2.0 */
/* What the command does when a signal stops it. */
#ifndef CKV_TOOLS_SIGNALS_H
#define CKV_TOOLS_SIGNALS_H

/* A signal that ends the process first removes the unfinished output; an input
 * file that shrinks or fails under its mapping (SIGBUS) ends in an error line
 * and status 1; a file size limit (SIGXFSZ) becomes a failing write. */
void signals_install(void);

/* From now on the first SIGINT or SIGTERM is only noted, so that what is under way can be finished and told;
 * the next one ends the process as before. */
void signals_note(void);

/* The signal that was noted, 0: none; and its name. */
int signals_noted(void);
const char *signals_name(int number);

#endif
