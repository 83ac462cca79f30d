/* SPDX-License-Identifier: Apache-2.0 */
/* One-line messages on standard error. */
#ifndef CKV_TOOLS_MESSAGE_H
#define CKV_TOOLS_MESSAGE_H

/* "ckv: ..." and "ckv: warning: ...".  The newline is added here, and control
 * characters, which a file's tensor names may hold, are shown as '?'. */
__attribute__((format(printf, 1, 2))) void message_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void message_warning(const char *format, ...);

#endif
