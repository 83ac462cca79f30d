/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the list CKV_DEF, one of backends/gpu/vendor/, equal to the vendor's own
 * header, which is included before: nothing is generated, it compiles or not.
 */
#define SCALAR(name, type)                                                                                             \
    _Static_assert(sizeof(name) == sizeof(type), #name);                                                               \
    _Static_assert(((name)-1 < (name)0) == ((type)-1 < (type)0), #name);
#define HANDLE(name)                                                                                                   \
    _Static_assert(__builtin_classify_type((name)0) == __builtin_classify_type((void *)0), #name);                     \
    _Static_assert(sizeof(name) == sizeof(void *), #name);
#define CONSTANT(name, value) _Static_assert((long long)(name) == (long long)(value), #name);
#define FUNCTION(result, name, arguments)                                                                              \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) arguments), #name);
#define OPTIONAL(result, name, arguments)
#include CKV_DEF
#undef SCALAR
#undef HANDLE
#undef CONSTANT
#undef FUNCTION
#undef OPTIONAL
#undef CKV_DEF
