/* SPDX-License-Identifier: Apache-2.0 */
/* Shared objects that are no modules: without the symbol, and, with -DOPEN, with a
 * function that is nowhere. */
int ckv_nothing(void);
#ifdef OPEN
int ckv_no_such_function(void);
#endif

int ckv_nothing(void)
{
#ifdef OPEN
    return ckv_no_such_function();
#else
    return 0;
#endif
}
