/* SPDX-License-Identifier: Apache-2.0 */
/* One of the GPU backends as a module; compiled with -DTARGET=cuda and so on. */
#include "backends/module/entry.h"

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
#define TABLE_(name) ckv_backend_##name
#define TABLE(name) TABLE_(name)

CKV_MODULE(TEXT(TARGET), TABLE(TARGET));
