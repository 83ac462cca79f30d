/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel, after the dialect's header. */
#include "params.h"

#include "number.h"

#include "bound.h"
#include "compact.h"
#include "norm_dot4.h"
#include "norm_int.h"
#include "norm_mfma.h"
#include "norm_mma.h"
#include "norm_wmma.h"
#include "probe.h"
#include "quantize.h"
#include "score.h"
#include "select.h"
